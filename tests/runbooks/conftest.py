"""Airflow and the checkers of the other formats, in an environment of their own."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from toolkit.storage.formats.file_lock import exclusively

LOCK = Path(__file__).parent / "schedule_tools.lock"
MINUTES_TO_INSTALL = 10

Tool = Callable[..., str]


@pytest.fixture(scope="session")
def tools(pytestconfig: pytest.Config) -> Path:
    """
    Return the folder of the tools' programs.

    Airflow's versions are not ours, so it cannot be beside us. The environment is in pytest's cache
    and made anew when the lock changes; the first of several test processes makes it.
    """
    cache = pytestconfig.cache
    folder = cache.mkdir("schedule-tools")
    environment, made_of = folder / "environment", folder / "made-of.lock"
    wanted = f"{sys.version}\n{LOCK.read_text('utf-8')}"
    with exclusively(folder / "making.lock"):
        if not made_of.exists() or made_of.read_text("utf-8") != wanted:
            made_of.unlink(missing_ok=True)
            shutil.rmtree(environment, ignore_errors=True)
            for command in (
                ["venv", "--python", sys.executable, environment],
                ["pip", "sync", "--python", environment, LOCK],
            ):
                subprocess.run(
                    [sys.executable, "-m", "uv", "--quiet", *command],
                    check=True,
                    timeout=60 * MINUTES_TO_INSTALL,
                )
            made_of.write_text(wanted, "utf-8")
    return environment / "bin"


@pytest.fixture(scope="session")
def tool(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Tool:
    """Return a function that runs a tool, which must succeed, and returns what it said."""
    home = tmp_path_factory.mktemp("home")
    environment = {"HOME": str(home), "AIRFLOW_HOME": str(home), "PATH": f"{tools}:/usr/bin:/bin"}

    def run(name: str, *arguments: str | Path) -> str:
        done = subprocess.run(
            [tools / name, *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=300,
        )
        assert 0 == done.returncode, done.stdout
        return done.stdout

    return run
