"""Dependencies are declared once, and everything that repeats them agrees."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

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
