"""Dependencies are declared once, and everything that repeats them agrees."""

import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

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
    declared = [
        *PROJECT["project"]["dependencies"],
        *PROJECT["project"]["optional-dependencies"]["history"],
        *PROJECT["dependency-groups"]["dev"],
    ]
    for requirement in declared:
        name = re.split(r"[<>=]", requirement)[0]
        assert re.search(rf"^{re.escape(name)}==\S+.*\\\n +--hash=sha256:", lock, re.MULTILINE), (
            name
        )


def test_the_tools_of_a_release_are_locked_with_hashes() -> None:
    """Every build of a commit uses the same versions."""
    lock = (ROOT / "requirements-release.lock").read_text("utf-8")
    for requirement in (ROOT / "requirements-release.in").read_text("utf-8").split():
        name = re.split(r"[<>=]", requirement)[0]
        assert re.search(rf"^{name}==\S+.*\\\n +--hash=sha256:", lock, re.MULTILINE), name


def test_only_pyproject_has_the_version() -> None:
    """No other file repeats it, so a release changes one line, and the changelog."""
    project = PROJECT["project"]
    git = shutil.which("git")
    assert git
    pattern = rf"{project['name']}.*{re.escape(project['version'])}"
    command = [git, "grep", "-lE", pattern, "--", ".", ":!CHANGELOG.md"]
    repeated = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert ("", "") == (repeated.stdout, repeated.stderr)


def load_release() -> Any:
    """Return scripts/release.py as a module."""
    spec = importlib.util.spec_from_file_location("release", ROOT / "scripts" / "release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_release_moves_unreleased_changes() -> None:
    """Its entries go under the version and the day; older ones stay."""
    release = load_release()
    old = "## 0.9.0 - 2026-01-01\n\n- B\n"
    changelog = f"# Changelog\n\n## Unreleased\n\n### Added\n\n- A\n\n{old}"
    released = "## Unreleased\n\n## 1.0.0 - 2026-02-01\n\n### Added\n\n- A\n"
    text = 'name = "x"\nversion = "0.9.0"\ntarget-version = "py311"\n'

    assert f"# Changelog\n\n{released}\n{old}" == release.with_release(
        changelog, "1.0.0", "2026-02-01"
    )
    assert text.replace("0.9.0", "1.0.0") == release.with_version(text, "1.0.0")
    with pytest.raises(SystemExit, match="no entry under Unreleased"):
        release.with_release(f"## Unreleased\n\n{old}", "1.0.0", "2026-02-01")


@pytest.mark.parametrize(
    ("version", "refusal"),
    [
        ("one", "Give one such as 1.0.0"),
        ("1.0.0-rc1", "write version '1.0.0-rc1' as 1.0.0rc1"),
        ("0.8", "older than 0.9.0"),
        ("1.0", "tag v1.0 exists"),
    ],
)
def test_a_version_that_is_refused(version: str, refusal: str) -> None:
    """No version, another spelling, an older one, and one that was released."""
    with pytest.raises(SystemExit, match=refusal):
        load_release().check_version(version, "0.9.0", ["v0.9.0", "v1.0"])


def test_a_release_refuses_uncommitted_changes(tmp_path: Path) -> None:
    """It names them and has changed nothing."""
    (tmp_path / "scripts").mkdir()
    script = shutil.copy(ROOT / "scripts" / "release.py", tmp_path / "scripts")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)  # noqa: S607 -- whichever git
    refused = subprocess.run(
        [sys.executable, script, "1.0.0"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    expected = "make release: commit or remove these changes first:\n?? scripts/\n"
    assert (1, "", expected) == (refused.returncode, refused.stdout, refused.stderr)


def test_an_sdist_has_no_trace_of_its_build(tmp_path: Path) -> None:
    """Times, owners, modes and the order of files do not change a byte of it."""
    sdists = [tmp_path / "one.tar.gz", tmp_path / "two.tar.gz"]
    for number, sdist in enumerate(sdists):
        with tarfile.open(sdist, "w:gz") as archive:
            for name in sorted(["x/b", "x/a"], reverse=bool(number)):
                member = tarfile.TarInfo(name)
                member.size, member.mtime, member.uid = 1, number, number
                member.mode = 0o664 if number else 0o600
                archive.addfile(member, io.BytesIO(b"1"))
        load_release().normalise(sdist, 1_700_000_000)

    assert sdists[0].read_bytes() == sdists[1].read_bytes()
    with tarfile.open(sdists[0]) as archive:
        assert ["x/a", "x/b"] == archive.getnames()
        assert {(0o644, 1_700_000_000)} == {(m.mode, m.mtime) for m in archive.getmembers()}


def test_workflows_call_make_and_hold_no_secrets() -> None:
    """Each target exists, the Pythons are those of the classifiers, and tokens can only read."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    pythons = [c.rpartition(" ")[2] for c in PROJECT["project"]["classifiers"] if ":: 3." in c]
    pages = {path.stem: path.read_text("utf-8") for path in ROOT.glob(".github/workflows/*.yml")}
    called = {
        word
        for page in pages.values()
        for line in re.findall(r"run: make (.*)", page)
        for word in line.split()
        if "=" not in word and not word.startswith(("$", "matrix", "}"))
    }

    assert set() == called - targets
    assert {"lint", "test", "test-fast", "release"} <= called
    assert (
        pythons == yaml.safe_load(pages["checks"])["jobs"]["fast"]["strategy"]["matrix"]["python"]
    )
    for page in pages.values():
        assert {"contents": "read"} == yaml.safe_load(page)["permissions"]
        assert "secrets." not in page


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
    """Where packages come from is a setting of the user."""
    hosts = ("pypi" + ".org", "pythonhosted" + ".org", "repo1" + ".maven", "maven.org/maven2")
    for path in [
        *ROOT.glob("*.*"),
        *ROOT.glob("scripts/*"),
        *ROOT.glob(".[dg]*/**/*.*"),
        *ROOT.glob("toolkit/**/*.*"),
    ]:
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
    shutil.unpack_archive(wheel, built / "installed", "zip")
    return built / "installed"


def run_installed(installed: Path, folder: Path, *words: str, code: int = 0) -> str:
    program = "from toolkit.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done.stdout


def test_the_wheel_has_all_sources(installed: Path) -> None:
    """Every tracked file of the packages, the notebooks and the runbooks; nothing else."""
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


def test_the_wheel_has_licence_types_and_pythons(installed: Path) -> None:
    """It has the licence, the type marker, and the supported Python versions."""
    (info,) = installed.glob("*.dist-info")
    metadata = (info / "METADATA").read_text("utf-8")

    assert (ROOT / "LICENSE").read_bytes() == (info / "licenses" / "LICENSE").read_bytes()
    assert all((installed / package / "py.typed").is_file() for package in ("toolkit", "widgets"))
    assert f"\nRequires-Python: {PROJECT['project']['requires-python']}\n" in metadata


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
    run_installed(installed, tmp_path, "run", "audit-review", code=4)  # there is no log yet

    names = {line.split(",")[0] for line in listed.splitlines()[1:]}
    assert {path.stem for path in ROOT.glob("runbooks/*.md")} - {"README"} == names
    assert len(list(tmp_path.glob("runs/*/report.html"))) == 2
