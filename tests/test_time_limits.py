"""A test that hangs fails, and shows what it hung with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.starts("test runs")

SUITE = """\
import threading, time
import pytest

@pytest.fixture(scope="session")
def shared():
    time.sleep(1.5)

def test_that_waits_for_what_all_share(shared):
    pass

def wait_in_a_thread():
    time.sleep(60)

def test_that_hangs(shared, tmp_path):
    (tmp_path / "broker.log").write_text("an early line\\n" * 30 + "the last words")
    threading.Thread(target=wait_in_a_thread, name="helper", daemon=True).start()
    time.sleep(60)

def test_that_comes_after():
    pass
"""


@pytest.mark.parametrize("workers", [0, 1])
def test_a_test_that_hangs(tmp_path: Path, workers: int) -> None:
    """It fails with all threads and the ends of brokers' logs; what all share is not its time."""
    (tmp_path / "test_it.py").write_text(SUITE)
    inherited = {n: value for n, value in os.environ.items() if not n.startswith("PYTEST_")}
    options = ["-p", "time_limits", "-o", "timeout=1", "-n", str(workers)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"--basetemp={tmp_path / 'temporary'}"],
        cwd=tmp_path,
        env=inherited | {"PYTHONPATH": str(Path(__file__).parent / "fixtures")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "1 failed, 2 passed" in done.stdout.splitlines()[-1]
    assert "thread helper" in done.stdout
    assert "in wait_in_a_thread" in done.stdout
    assert "the last words" in done.stdout
    assert 30 > done.stdout.count("an early line") > 0
