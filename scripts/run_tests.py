"""
Run tiers of the tests, one after the other: `run_tests.py default`, `run_tests.py live faults`.

What fails is run once more, alone and with new brokers, if no more than three tests failed. What
passes then is reported as FLAKY and added to build/flaky.jsonl; the run is green and says how many
there were. More failures, a second failure, a test process that died and an error in collection are
red. There is no second run in tier `faults` and with --no-retry, as for a release.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent.parent / "tests" / "fixtures"))

from chromium import chromium, find_chromium

BUILD = Path("build")
FLAKY = BUILD / "flaky.jsonl"
MOST_RETRIED = 3
SLOWEST = 10
TESTS_FAILED, NO_TESTS = 1, 5  # exit codes of pytest
# Live groups do not compete: two processors are enough for two of them, and nothing runs beside.
# What waits for brokers shared by all processes does not use a processor each.
PROCESSES = {"fast": 2, "default": 4, "live": 2, "faults": 2, "slow": 2, "browser": 1}
WITHOUT_RETRY = {"faults"}


@dataclass
class Result:
    """What became of a tier."""

    tier: str
    wall_s: float
    seconds: dict[str, float] = field(default_factory=dict)  # of each test
    failed: dict[str, Any] = field(default_factory=dict)
    flaky: dict[str, Any] = field(default_factory=dict)
    died: list[str] = field(default_factory=list)  # test processes
    is_green: bool = True
    is_complete: bool = True


def run_tier(tier: str, arguments: Sequence[str], *, retry: bool) -> Result:
    """Run the tests of a tier, and once more what failed, as the policy above says."""
    began = time.monotonic()
    workers = ["-n", str(PROCESSES[tier]), "--dist", "loadfile"]
    select = ["--tier", tier]
    code, first = _pytest(tier, [*select, *workers, "--cache-clear", *arguments])
    result = Result(tier, 0, first["seconds"], first["failures"], died=first["died"])
    # Where tests are named, a tier may have none of them.
    green = {0, NO_TESTS} if arguments else {0}
    result.is_green = code in green
    result.is_complete = code in {0, NO_TESTS, TESTS_FAILED}
    may_retry = (
        retry
        and code == TESTS_FAILED
        and not first["died"]
        and 0 < len(first["failures"]) <= MOST_RETRIED
    )
    if may_retry:
        print(f"== once more, alone: {len(first['failures'])} of tier {tier}", file=sys.stderr)
        only = ["--last-failed", "--last-failed-no-failures", "none", "-n", "0"]
        code, second = _pytest(f"{tier}-again", [*select, *only, *arguments])
        result.failed = second["failures"]
        result.is_green = code == 0 and second["seconds"].keys() == first["failures"].keys()
        if result.is_green:
            result.flaky = first["failures"]
    result.wall_s = time.monotonic() - began
    return result


def _pytest(name: str, options: list[str]) -> tuple[int, dict[str, Any]]:
    """Run pytest, and return its exit code and its record; without one it was ended."""
    record = BUILD / "tests" / f"{name}.json"
    record.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "--record", str(record), *options]
    process = subprocess.Popen(command)
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # pytest gets Ctrl-C as well, and ends
    code = process.wait()
    if not record.exists():
        return code or TESTS_FAILED, {"seconds": {}, "failures": {}, "died": ["pytest"]}
    return code, json.loads(record.read_text("utf-8"))


def note_flaky(result: Result) -> None:
    """Print each flaky test with its first failure, and add it to the file of all runs."""
    if not result.flaky:
        return
    git = ["git", "rev-parse", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    BUILD.mkdir(exist_ok=True)
    with FLAKY.open("a", encoding="utf-8") as file:
        for test, failure in result.flaky.items():
            print(f"FLAKY {test}\n{failure['text']}\n")
            about = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "commit": commit}
            line = about | {"tier": result.tier, "test": test} | failure
            file.write(json.dumps(line) + "\n")


def print_summary(results: Sequence[Result]) -> None:
    """Print a line for each tier, the slowest tests, and what was flaky or failed."""
    print(f"\n{'tier':10}{'tests':>8}{'failed':>8}{'flaky':>8}{'time':>9}")
    for one in results:
        numbers = f"{len(one.seconds):8,}{len(one.failed):8}{len(one.flaky):8}"
        print(f"{one.tier:10}{numbers}{_clock(one.wall_s):>9}")
    seconds = {test: s for one in results for test, s in one.seconds.items()}
    print(f"\nthe {SLOWEST} slowest tests")
    for test in sorted(seconds, key=seconds.__getitem__, reverse=True)[:SLOWEST]:
        print(f"{seconds[test]:8.1f} s  {test}")
    print()
    for one in results:
        for process in one.died:
            print(f"DIED {process} in tier {one.tier}")
        for word, tests in (("FLAKY", one.flaky), ("FAILED", one.failed)):
            for test in tests:
                print(f"{word} {test}")
    flaky = sum(len(one.flaky) for one in results)
    red = [one.tier for one in results if not one.is_green]
    verdict = f"RED: {', '.join(red)}" if red else "GREEN"
    print(f"{verdict}; {flaky} flaky" + (f" (see {FLAKY})" if flaky else ""))


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def install_what_tests_use() -> None:
    """Install a browser, openssl, systemd-analyze and shells with apt, where that is possible."""
    missing = []
    if not find_chromium():
        missing.append("chromium")
    for program, package in (
        ("openssl", "openssl"),
        ("systemd-analyze", "systemd"),  # on macOS, the units of schedules are not tested
        ("zsh", "zsh"),  # completion is tested in the shells that are installed
        ("fish", "fish"),
    ):
        if not shutil.which(program):
            missing.append(package)
    if missing and shutil.which("apt-get") and os.geteuid() == 0:
        print(f"== installing what the tests need: {' '.join(missing)}", file=sys.stderr)
        quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing]
        subprocess.run(["apt-get", "update", "-qq"], check=True)  # noqa: S607
        subprocess.run(install, env=quiet, stdout=subprocess.DEVNULL, check=True)
    if not shutil.which("openssl"):
        raise SystemExit("the TLS and permission tests need openssl: apt install openssl")
    chromium()


def main() -> int:
    """Run the tiers that are named; return 1 if one is red."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tiers", nargs="+", choices=PROCESSES, metavar="TIER")
    parser.add_argument("--no-retry", action="store_true", help="a test that fails once is red")
    options, arguments = parser.parse_known_args()
    if set(options.tiers) != {"fast"}:
        install_what_tests_use()
    results = []
    for tier in options.tiers:
        print(f"== tests of tier {tier}", file=sys.stderr)
        retry = not options.no_retry and tier not in WITHOUT_RETRY
        results.append(run_tier(tier, arguments, retry=retry))
        note_flaky(results[-1])
        if not results[-1].is_complete:
            break
    print_summary(results)
    return int(not all(one.is_green for one in results))


if __name__ == "__main__":
    sys.exit(main())
