"""The benchmarks: each of them starts, and all together leave one table or refuse."""

import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
STATUS_REFUSED = 3
# All in one process, in which what they import is loaded once.
HELP_OF_EACH = """
import contextlib, io, pathlib, runpy, sys
for path in sys.argv[1:]:
    sys.argv = [path, "--help"]
    sys.path.insert(0, str(pathlib.Path(path).parent))
    with contextlib.redirect_stdout(io.StringIO()) as told, contextlib.suppress(SystemExit):
        runpy.run_path(path, run_name="__main__")
    assert "--small" in told.getvalue(), f"{path}: {told.getvalue()}"
"""
GOOD = """
import sys
ALSO_RUN = (("--more",),)
if __name__ == "__main__":
    print("Some words.\\n\\n| kind | wall s | CPU s |\\n|---|---|---|")
    print(f"| {' '.join(sys.argv[1:]) or 'plain'} | 1.50 | 0.25 |")
"""
BAD = """
import sys
if __name__ == "__main__":
    sys.exit("the broker | did not start")
"""


def run_all(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS), "--folder", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def folder_of_benchmarks(folder: Path) -> Path:
    """Write a benchmark that fails, one that works, and what both might import."""
    (folder / "a_bad.py").write_text(BAD)
    (folder / "good.py").write_text(GOOD)
    (folder / "shared.py").write_text("raise SystemExit('is only imported')")
    return folder


def test_every_benchmark_starts() -> None:
    """Each benchmark can be imported as it stands, and offers the trial that runs in minutes."""
    scripts = [path for path in BENCHMARKS.glob("*.py") if '"__main__"' in path.read_text("utf-8")]
    assert len(scripts) > 1
    names = [str(path) for path in scripts if path.name != "__main__.py"]
    done = subprocess.run(
        [sys.executable, "-c", HELP_OF_EACH, *names], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_failing_benchmark_does_not_hide_the_others(tmp_path: Path) -> None:
    """One table has each row of those that worked and the reason of one that failed; status 1."""
    done = run_all(folder_of_benchmarks(tmp_path), "--max-load", "inf")
    table, *_whole_outputs = (tmp_path / "RESULTS.md").read_text("utf-8").split("\n## ")
    rows = [line.split(" | ")[:3] for line in table.splitlines() if line.startswith("| ")]
    failed = r"**failed with status 1: the broker \| did not start**"
    assert rows == [
        ["| benchmark", "measured", "result"],
        ["| a_bad.py", "–", failed],
        ["| good.py", "kind plain", "wall s 1.50; CPU s 0.25"],
        ["| good.py --more", "kind --more", "wall s 1.50; CPU s 0.25"],
    ]
    assert done.stderr.endswith("failed: a_bad.py\n")
    assert done.returncode == 1


def test_a_loaded_machine_gets_no_results(tmp_path: Path) -> None:
    """Above the load that is allowed nothing is run or written, and the refusal says what to do."""
    done = run_all(folder_of_benchmarks(tmp_path), "--max-load", "-1")
    assert done.returncode == STATUS_REFUSED
    assert "End what else runs" in done.stderr
    assert not done.stdout
    assert not (tmp_path / "RESULTS.md").exists()


def test_a_trial_writes_nothing(tmp_path: Path) -> None:
    """With --small each benchmark runs once with that option, on any machine, into stdout only."""
    done = run_all(folder_of_benchmarks(tmp_path), "--small", "--max-load", "-1")
    assert "| good.py --small | kind --small | wall s 1.50; CPU s 0.25 |" in done.stdout
    assert not (tmp_path / "RESULTS.md").exists()
