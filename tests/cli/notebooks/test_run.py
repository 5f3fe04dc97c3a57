import io
import json
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from applications import eventually
from click.testing import CliRunner
from small_notebooks import EndWith, MakeNotebook

from toolkit.cli.notebooks import run_runbook
from toolkit.cli.notebooks.run import command
from toolkit.errors import UsageError
from toolkit.runbooks.parallel_runs import ClusterRunResult
from toolkit.runner.notebooks import find_notebook

CONCLUDE = "from toolkit.report.conclusion import conclude\nconclude('nothing to do', findings=0)"


def invoke(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(command, [str(a) for a in arguments], catch_exceptions=False)
    return result.exit_code, result.stdout, result.stderr


def test_the_output_has_the_outcome(make_notebook: MakeNotebook, tmp_path: Path) -> None:
    """Stdout has the outcome and the path of the report, stderr the steps."""
    notebook = make_notebook("## Look", CONCLUDE, parameters='cluster: str = ""')

    code, out, err = invoke(notebook, "-p", "cluster=eu", "--output-dir", tmp_path / "runs")

    outcome, report = out.splitlines()
    assert (code, outcome) == (0, "done: nothing to do")
    assert Path(report).is_file()
    assert err.splitlines() == ["[1/2]", "[2/2] Look"]


def test_json(make_notebook: MakeNotebook, tmp_path: Path) -> None:
    """With --output json stdout is result.json and nothing else, also when the run failed."""
    notebook = make_notebook("from toolkit.errors import NotFound\nraise NotFound('no group g')")

    code, out, err = invoke(notebook, "--output", "json", "--quiet", "--output-dir", tmp_path / "r")

    result = json.loads(out)
    assert code == result["exit_code"] == 1
    assert result == json.loads((Path(result["folder"]) / "result.json").read_text())
    assert result["error"]["reason"] == "no group g"
    assert err == ""


def test_the_json_of_a_runbook_has_every_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a name that the encoding of stdout lacks."""
    page: Any = SimpleNamespace(name="nightly", title="Nightly report")
    stdout = io.TextIOWrapper(io.BytesIO(), "latin-1", errors="replace")
    monkeypatch.setattr(sys, "stdout", stdout)

    run_runbook._print(page, [ClusterRunResult(("東京",), 0)], "json")

    stdout.flush()
    (run,) = json.loads(stdout.buffer.getvalue())["runs"]
    assert ["東京"] == run["clusters"]


def test_a_closed_pipe_ends_no_run(make_notebook: MakeNotebook, tmp_path: Path) -> None:
    """`offsetbook run ... | head` still runs to the end, with its report and exit code."""
    notebook = make_notebook("1", "## Look", CONCLUDE)
    offsetbook = Path(sys.executable).with_name("offsetbook")
    words = shlex.join([str(offsetbook), "run", str(notebook)])
    script = f"({words} --output-dir {tmp_path}/runs; echo $? > {tmp_path}/code) 2>&1 | head -1"

    done = subprocess.run(["/bin/bash", "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.startswith("[1/2]")
    eventually(lambda: (tmp_path / "code").exists() and (tmp_path / "code").read_text() == "0\n")
    (result,) = (tmp_path / "runs").glob("*/result.json")
    assert "done" == json.loads(result.read_text())["status"]


def test_wrong_parameter(make_notebook: MakeNotebook) -> None:
    """What is no NAME=VALUE is the caller's error."""
    assert invoke(make_notebook("1", parameters="apply: bool = False"), "-p", "apply")[0] == 2


def test_lists_parameters(make_notebook: MakeNotebook) -> None:
    """--help-parameters shows name, type, default and help, and runs nothing."""
    line = "topic: str | None = None  # [all] when not set"

    code, out, _err = invoke(make_notebook("1 / 0", parameters=line), "--help-parameters")

    assert code == 0
    for said in ("topic", "str | None", "None", "[all] when not set"):
        assert said in out


def test_finds_by_beginning(make_notebook: MakeNotebook, tmp_path: Path) -> None:
    """
    A notebook is found by path or by a beginning that only it has; else all are named.

    A copy of a notebook of the package in the working directory is run by its path, not its name.
    """
    twenty, sixty = make_notebook(name="20_find"), make_notebook(name="60_delete_offsets")
    make_notebook(name="61_delete_groups")
    copies = tmp_path / "notebooks"
    copies.mkdir()
    copy, own = copies / twenty.name, copies / "99_own.ipynb"
    for path in (copy, own):
        path.write_text(twenty.read_text("utf-8"), "utf-8")
    folders = (tmp_path / "missing", tmp_path, copies)

    assert find_notebook("20", folders=folders) == twenty
    assert find_notebook(str(copy), folders=folders) == copy
    assert find_notebook("99", folders=folders) == own
    assert find_notebook("60_delete_offsets", folders=folders) == sixty
    assert find_notebook(str(twenty), folders=()) == twenty
    with pytest.raises(UsageError, match="60_delete_offsets, 61_delete_groups"):
        find_notebook("6", folders=folders)
    with pytest.raises(UsageError, match="one of: 20_find, 60_delete_offsets"):
        find_notebook("98", folders=folders)
    with pytest.raises(UsageError, match="no notebook"):
        find_notebook("nowhere.ipynb", folders=folders)


def test_a_saved_approval_is_reported(
    make_notebook: MakeNotebook, without_kernel: EndWith, tmp_path: Path
) -> None:
    """The user learns that an approval saved in the notebook does not count."""
    without_kernel()
    notebook = make_notebook(parameters='dry_run: bool = False\ngroup: str = "saved"')

    _code, _out, told = invoke(notebook, "--output-dir", tmp_path / "runs")
    given = ("-p", "dry_run=false", "--output-dir", tmp_path / "runs")
    _code, _out, silent = invoke(notebook, *given)

    assert "has dry_run saved; not used: pass them with -p" in told
    assert "not used" not in silent


@pytest.mark.parametrize(
    ("module", "slow"),
    [
        (
            "toolkit.cli.notebooks.run",
            {"papermill", "nbformat", "pandas", "plotly", "IPython", "rich", "toolkit.runner"},
        ),
        ("toolkit.runner", {"papermill", "nbformat", "pandas", "ipykernel"}),
    ],
    ids=["the command's help", "what a last cell concludes with"],
)
def test_imports_are_light(module: str, slow: set[str]) -> None:
    """What `--help` and a notebook's last cell import does not include anything slow."""
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert slow.isdisjoint(loaded.stdout.split())
