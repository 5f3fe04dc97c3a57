"""What `make test` makes of tests that fail: once more, alone, at the end, and never in silence."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.starts("test runs")

ROOT = Path(__file__).parent.parent
# `times(name)` is how often a test has run; every run is a line of a file.
SUITE = """\
import os
from pathlib import Path
import pytest
pytestmark = pytest.mark.{tier}("the tests of this mechanism")

def times(name):
    with Path("runs").open("a") as file:
        file.write(name + "\\n")
    return Path("runs").read_text().split().count(name)

def test_good():
    times("good")
"""
ONCE = "def test_{name}():\n    assert times('{name}') > 1, 'only the first time'\n"
ALWAYS = "def test_{name}():\n    times('{name}')\n    assert False\n"
DIES = "def test_{name}():\n    if times('{name}') == 1: os._exit(7)\n"
BROKEN = "import something_that_is_not_there\n"


class Run:
    """A run of the tiny suite."""

    def __init__(self, folder: Path, *tests: str, tier: str = "live", asked: str = "") -> None:
        """Write the suite into a folder, and run it as make does."""
        self.folder = folder
        (folder / "conftest.py").write_text("pytest_plugins = ['tiers', 'run_record']\n")
        cases = "\n".join(test.format(name=f"t{at}") for at, test in enumerate(tests))
        (folder / "test_it.py").write_text(SUITE.format(tier=tier) + cases)
        inherited = {n: value for n, value in os.environ.items() if not n.startswith("PYTEST_")}
        self.done = subprocess.run(
            [sys.executable, ROOT / "scripts" / "run_tests.py", asked or tier],
            cwd=folder,
            env=inherited | {"PYTHONPATH": str(ROOT / "tests" / "fixtures")},
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def verdict(self) -> tuple[int, str]:
        return self.done.returncode, self.done.stdout.splitlines()[-1]

    @property
    def tests_run(self) -> list[str]:
        """The tests in the order in which they ran, those of the first pass sorted."""
        runs = self.folder / "runs"
        return sorted(runs.read_text("utf-8").split()) if runs.exists() else []

    @property
    def has_second_pass(self) -> bool:
        return (self.folder / "build" / "tests" / "live-again.json").exists()

    @property
    def noted(self) -> list[dict[str, Any]]:
        """The flaky tests in the file of all runs."""
        file = self.folder / "build" / "flaky.jsonl"
        lines = file.read_text("utf-8").splitlines() if file.exists() else []
        return [json.loads(line) for line in lines]


def test_one_that_fails_once_is_flaky(tmp_path: Path) -> None:
    """The run is green, and says which test it was, with its first failure, load and commit."""
    run = Run(tmp_path, ONCE)

    assert (0, "GREEN; 1 flaky (see build/flaky.jsonl)") == run.verdict
    assert ["good", "t0", "t0"] == run.tests_run
    assert "FLAKY test_it.py::test_t0\n" in run.done.stdout
    (noted,) = run.noted
    assert ("test_it.py::test_t0", "live") == (noted["test"], noted["tier"])
    assert "AssertionError: only the first time" in noted["text"]
    assert {"at", "commit", "load"} <= noted.keys()


@pytest.mark.parametrize(
    ("tests", "tier", "tests_run", "named"),
    [
        pytest.param([ALWAYS, ONCE], "live", "good t0 t0 t1 t1", "FAILED {}0", id="fails twice"),
        pytest.param([ONCE] * 4, "live", "good t0 t1 t2 t3", "FAILED {}3", id="four that fail"),
        # pytest-xdist starts another process, and runs the test there.
        pytest.param([DIES], "live", "good t0 t0", "DIED gw", id="a process that dies"),
        pytest.param([BROKEN], "live", "", "something_that_is_not_there", id="not collected"),
        pytest.param([ONCE], "faults", "good t0", "FAILED {}0", id="no second run of faults"),
    ],
)
def test_a_red_run(tmp_path: Path, tests: list[str], tier: str, tests_run: str, named: str) -> None:
    """The exit code, the last line, what was run again, and the name of the failure."""
    run = Run(tmp_path, *tests, tier=tier)

    assert (1, f"RED: {tier}; 0 flaky") == run.verdict
    assert tests_run.split() == run.tests_run
    assert named.format("test_it.py::test_t") in run.done.stdout
    assert [] == run.noted
    assert (tests == [ALWAYS, ONCE]) is run.has_second_pass


def test_a_tier_without_tests_is_red(tmp_path: Path) -> None:
    """A tier that lost its tests says so."""
    run = Run(tmp_path, tier="slow", asked="live")

    assert ((1, "RED: live; 0 flaky"), []) == (run.verdict, run.tests_run)


def test_a_run_without_a_failure_is_green(tmp_path: Path) -> None:
    """It runs every test once, and notes nothing."""
    run = Run(tmp_path)

    assert (0, "GREEN; 0 flaky") == run.verdict
    assert ["good"] == run.tests_run
    assert [] == run.noted
