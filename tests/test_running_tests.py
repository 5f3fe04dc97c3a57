"""How tests are run: nothing outlives a run, and a test that hangs fails."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from applications import eventually

pytestmark = pytest.mark.starts("test runs")

# It starts a process that is to outlive it, as a sandbox does, and waits.
RUN = """\
import subprocess, time
def test_waits():
    child = subprocess.Popen(["sleep", "3600"], start_new_session=True)
    open("started", "w").write(str(child.pid))
    while True:
        time.sleep(1)
"""
FIXTURES = Path(__file__).parent / "fixtures"


@contextmanager
def running(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], psutil.Process]]:
    """Run the test above in a pytest of its own, and yield that and the process it started."""
    (folder / "test_it.py").write_text(RUN)
    plugins = ("-p", "processes", "-p", "no:cacheprovider")
    # It is a run of its own, whatever was said to the one that this test belongs to.
    inherited = {name: word for name, word in os.environ.items() if not name.startswith("PYTEST_")}
    temporary = folder / "temporary"
    temporary.mkdir()
    with (folder / "said").open("wb") as said:
        run = subprocess.Popen(
            [sys.executable, "-m", "pytest", *plugins],
            cwd=folder,
            env={**inherited, "PYTHONPATH": str(FIXTURES), "TMPDIR": str(temporary)},
            stdout=said,
            stderr=said,
        )
    try:
        started = folder / "started"
        yield run, psutil.Process(int(eventually(lambda: started.exists() and started.read_text())))
    finally:
        run.kill()
        run.wait()


def is_over(process: psutil.Process) -> bool:
    """Whether a process has ended; where nobody waits for it, a zombie is left."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_ended_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    """However pytest ends, what it has started ends with it, and its temporary files go."""
    with running(tmp_path) as (run, started):
        assert any((tmp_path / "temporary").iterdir())
        run.send_signal(number)
        eventually(lambda: is_over(started))
        eventually(lambda: not any((tmp_path / "temporary").iterdir()))


def test_the_next_run_ends_processes_of_a_killed_guard(tmp_path: Path) -> None:
    """If the guard was killed with its run, the next run starts by ending what is left."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    with running(first) as (run, left):
        (guard,) = (one for one in psutil.Process(run.pid).children() if one.pid != left.pid)
        guard.kill()
        run.kill()
        run.wait()
        assert not is_over(left)
        with running(second) as (_, started):
            eventually(lambda: is_over(left))
            assert not is_over(started)


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
