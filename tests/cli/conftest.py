"""The real command, run as a person or a scheduler runs it."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from main_program import Command, call_main

from toolkit.cli import cli
from toolkit.model import Cluster

OnTerminal = Callable[..., None]
QUICK = ("--override", "keeps-committing")
DOWN = "127.0.0.1:1"  # where nobody may listen but root, and nobody does


@pytest.fixture
def on_terminal(monkeypatch: pytest.MonkeyPatch) -> OnTerminal:
    def resize(columns: int = 80, lines: int = 24, term: str = "dumb") -> None:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setenv("TERM", term)
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("LINES", str(lines))

    return resize


@pytest.fixture(scope="session")
def offsetbook(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """Return a function that runs the command with arguments, on a fleet of named addresses."""
    program = shutil.which("offsetbook", path=str(Path(sys.executable).parent))
    assert program, "the command is not installed beside the interpreter"
    elsewhere = tmp_path_factory.mktemp("elsewhere")

    def run(*arguments: str, fleet: Path | None = None) -> subprocess.CompletedProcess[str]:
        unwanted = {"OFFSETBOOK_FLEET", "PYTHONDONTWRITEBYTECODE"}
        environment = {name: value for name, value in os.environ.items() if name not in unwanted}
        # Compiled modules are kept from one run to the next, wherever they may be kept.
        environment["PYTHONPYCACHEPREFIX"] = str(elsewhere / "pycache")
        if fleet:
            environment["OFFSETBOOK_FLEET"] = str(fleet)
        return subprocess.run(
            [program, *arguments],
            cwd=elsewhere,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def offsetbook_main(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """Return the same without a new interpreter: errors and exit codes are those of the process."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")

    def run(*arguments: str, fleet: Path | None = None) -> subprocess.CompletedProcess[str]:
        named = str(fleet) if fleet else None
        return call_main(arguments, folder=elsewhere, OFFSETBOOK_FLEET=named)

    return run


@pytest.fixture(scope="session")
def offsetbook_here() -> Command:
    """Return the same for the many cases that succeed; an error is raised as it is."""

    def run(*arguments: str, fleet: Path) -> subprocess.CompletedProcess[str]:
        done = CliRunner().invoke(
            cli, arguments, env={"OFFSETBOOK_FLEET": str(fleet)}, catch_exceptions=False
        )
        return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)

    return run


@pytest.fixture(scope="session")
def approve_shown(offsetbook_here: Command) -> Command:
    """Return a function that has a command's plan shown, and then applies exactly that."""

    def run(*arguments: str, fleet: Path) -> subprocess.CompletedProcess[str]:
        shown = offsetbook_here(*arguments, "--dry-run", fleet=fleet)
        (fingerprint,) = re.findall("Fingerprint: (.*)", shown.stderr)
        approval = ("--approve", fingerprint, "--reason", "a test", *QUICK)
        return offsetbook_here(*arguments, *approval, fleet=fleet)

    return run


@pytest.fixture(scope="session")
def fleet_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    def write(**addresses: str) -> Path:
        clusters = {name: {"bootstrap.servers": address} for name, address in addresses.items()}
        path = tmp_path_factory.mktemp("fleet") / "fleet.yaml"
        content = {"clusters": clusters, "state": "state"}
        path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def fleet(fleet_of: Callable[..., Path], cluster: Cluster) -> Path:
    return fleet_of(eu=cluster.bootstrap_servers)


@pytest.fixture(scope="session")
def half_down(fleet_of: Callable[..., Path], cluster: Cluster) -> Path:
    """Return a fleet file of the seeded cluster and one that does not answer."""
    return fleet_of(us=DOWN, eu=cluster.bootstrap_servers)


@pytest.fixture(scope="session")
def down(fleet_of: Callable[..., Path]) -> Path:
    return fleet_of(us=DOWN)
