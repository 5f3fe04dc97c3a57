"""Dependencies are declared once, and everything that repeats them agrees."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from applications import Applications

from toolkit.model import TopicPartition

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
CONDA_NAMES = {"python-confluent-kafka": "confluent-kafka"}
ONLY_CONDA = {"python", "openjdk", "pip"}


def test_environment_yml_mirrors_pyproject() -> None:
    """The conda environment lists the same packages with the same bounds, and a Java."""
    listed = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))["dependencies"]
    plain = [entry for entry in listed if isinstance(entry, str)]
    (by_pip,) = [entry["pip"] for entry in listed if isinstance(entry, dict)]
    entries = [*plain, *(entry for entry in by_pip if not entry.startswith("-e"))]
    named = [re.match(r"([\w-]+)(.*)", entry).groups() for entry in entries]  # type: ignore[union-attr] # a miss is a failure
    conda = {CONDA_NAMES.get(name, name) + bounds for name, bounds in named}

    only_conda = {entry for entry in conda if re.split(r"[<>=]", entry)[0] in ONLY_CONDA}
    assert set(PROJECT["project"]["dependencies"]) == conda - only_conda
    assert {"python" + PROJECT["project"]["requires-python"], "openjdk>=17", "pip"} == only_conda


def test_every_dependency_is_locked_with_hashes() -> None:
    """The lock that make installs from names every declared package, each with a hash."""
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    groups = PROJECT["dependency-groups"]["dev"]
    for requirement in [*PROJECT["project"]["dependencies"], *groups]:
        name = re.split(r"[<>=]", requirement)[0]
        assert re.search(rf"^{re.escape(name)}==\S+.*\\\n +--hash=sha256:", lock, re.MULTILINE), (
            name
        )


def test_licences_are_known(tmp_path: Path) -> None:
    """Every installed package has an accepted licence; one that has not is named, and exit is 1."""
    command = [sys.executable, "scripts/licences.py"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    odd = tmp_path / "odd-1.0.dist-info"
    odd.mkdir()
    (odd / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\nLicense: Ours\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    refused = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )

    assert (0, "") == (listed.returncode, listed.stderr)
    assert (1, "check by hand: odd\n") == (refused.returncode, refused.stderr)


def test_known_vulnerabilities_are_found_offline(tmp_path: Path) -> None:
    """Only an advisory that has the locked version is listed; without a copy, the exit is 2."""
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    (locked,) = re.findall(r"^click==([\d.]+)", lock, re.MULTILINE)
    newer = locked + ".1"
    command = [sys.executable, "scripts/vulnerabilities.py", "--offline", "--advisories"]
    missing = subprocess.run([*command, tmp_path], cwd=ROOT, capture_output=True, check=False)
    (tmp_path / "vulns" / "click").mkdir(parents=True)
    for name, events, more in (
        ("fixed-later", [{"introduced": "0"}, {"fixed": newer}], {"aliases": ["CVE-1"]}),
        ("fixed-before", [{"introduced": "0"}, {"fixed": locked}], {}),
        ("introduced-later", [{"introduced": newer}], {}),
        ("introduced-again", [{"introduced": locked}, {"introduced": "0"}, {"fixed": "1.0"}], {}),
        ("last-now", [{"introduced": "0"}, {"last_affected": locked}], {}),
        ("last-before", [{"introduced": "0"}, {"last_affected": "1.0"}], {}),
        ("withdrawn", [{"introduced": "0"}], {"withdrawn": "2026-01-01T00:00:00Z"}),
    ):
        affected = {
            "package": {"name": "Click"},
            "ranges": [{"type": "ECOSYSTEM", "events": events}],
        }
        advisory = yaml.safe_dump({"id": name, "affected": [affected], **more})
        (tmp_path / "vulns" / "click" / f"{name}.yaml").write_text(advisory)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=any", "-c", "user.email=any@example"]
    yesterday = f"{datetime.now(UTC) - timedelta(days=1, hours=1):%Y-%m-%dT%H:%M:%S+00:00}"
    environment = {**os.environ, "GIT_COMMITTER_DATE": yesterday}
    for step in (["init", "-q"], ["add", "."], ["commit", "-qm", "advisories"]):
        subprocess.run([*git, *step], env=environment, check=True)
    found = subprocess.run(
        [*command, tmp_path], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert (2, b"") == (missing.returncode, missing.stdout)
    assert b"there is no advisory database in" in missing.stderr
    assert "the copy is 1 day old" in found.stderr
    assert 1 == found.returncode
    assert [
        f"click {locked}: fixed-later, CVE-1; fixed in {newer}",
        f"click {locked}: introduced-again; fixed in 1.0",
        f"click {locked}: last-now; fixed in no version",
    ] == found.stdout.splitlines()


def test_pandas_stays_below_3() -> None:
    """PySpark does not support pandas 3 yet, so neither do we."""
    locked = re.search(
        r"^pandas==(\d+)\.", (ROOT / "requirements.lock").read_text("utf-8"), re.MULTILINE
    )

    assert locked
    assert int(locked[1]) < 3


def test_no_file_names_a_package_index() -> None:
    """Where packages come from is the user's setting, not ours."""
    hosts = ("pypi" + ".org", "pythonhosted" + ".org", "repo1" + ".maven", "maven.org/maven2")
    for path in [*ROOT.glob("*.*"), *ROOT.glob("scripts/*"), *ROOT.glob("toolkit/**/*.*")]:
        if path.is_file() and path.suffix != ".pyc":
            text = path.read_text("utf-8", errors="ignore")
            assert not [host for host in hosts if host in text], path


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what the wheel installs, built from the sources alone."""
    sources, built = tmp_path_factory.mktemp("sources"), tmp_path_factory.mktemp("built")
    left_out = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
    for folder in ("toolkit", "widgets", "notebooks", "runbooks", "share"):
        shutil.copytree(ROOT / folder, sources / folder, symlinks=True, ignore=left_out)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources)
    build = f"import setuptools.build_meta as backend; backend.build_wheel({str(built)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=sources, check=True, capture_output=True)
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(built / "installed")
    return built / "installed"


def run_installed(installed: Path, folder: Path, *words: str) -> str:
    """Run the command of the wheel in a folder, and return what it prints."""
    program = "from toolkit.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_has_what_the_sources_have(installed: Path) -> None:
    """Every file that git has of the packages, the notebooks and the runbooks; nothing else."""
    git = shutil.which("git")
    assert git
    known = subprocess.run(
        [git, "ls-files", "toolkit", "widgets", "notebooks", "runbooks"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    links = {"toolkit/templates/notebooks", "toolkit/templates/runbooks"}
    expected = {
        f"toolkit/templates/{name}" if name.startswith(("notebooks/", "runbooks/")) else name
        for name in known
        if name not in links
    }
    has = {str(path.relative_to(installed)) for path in installed.rglob("*") if path.is_file()}

    assert expected == {name for name in has if not name.startswith("offsetbook-")}


def test_jupyterlab_finds_launcher_tiles_and_templates(installed: Path) -> None:
    """The wheel puts every notebook where templates are looked for, and each tile opens one."""
    (data,) = installed.glob("offsetbook-*.data/data/share/jupyter")
    (file,) = data.glob("jupyter_app_launcher/jp_app_launcher_*.yaml")
    opened = [file.parent / tile["source"] for tile in yaml.safe_load(file.read_text("utf-8"))]
    templates = {path.name for path in data.glob("notebook_templates/offsetbook/*")}

    assert ["00_tour", "10_fleet_lag", "90_troubleshoot_group"] == [one.stem for one in opened]
    assert all(one.is_file() for one in opened)
    assert {path.name for path in ROOT.glob("notebooks/*.ipynb")} == templates


@pytest.mark.starts("a broker and kernels")
def test_the_wheel_runs_in_an_empty_directory(
    installed: Path, apps: Applications, tmp_path: Path
) -> None:
    """Without a clone there are all runbooks, and a notebook and a runbook run by name."""
    group = apps.name("wheel")
    apps.commit(group, {TopicPartition(apps.create_topic(apps.name("wheel")), 0): 0})
    fleet = {"clusters": {"bare": {"bootstrap.servers": apps.address}}, "state": "state"}
    (tmp_path / "fleet.yaml").write_text(yaml.safe_dump(fleet), "utf-8")

    listed = run_installed(installed, tmp_path, "runbooks", "--output", "csv")
    # Of a group that no other test changes meanwhile: what it cannot read ends with another code.
    run_installed(installed, tmp_path, "run", "20", "-p", f"groups={group}")
    run_installed(installed, tmp_path, "run", "audit-review")

    names = {line.split(",")[0] for line in listed.splitlines()[1:]}
    assert {path.stem for path in ROOT.glob("runbooks/*.md")} - {"README"} == names
    assert len(list(tmp_path.glob("runs/*/report.html"))) == 2
