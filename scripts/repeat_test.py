"""
Run one test many times, each time with new brokers, beside processes that keep the machine busy.

    make repeat TEST=tests/live/test_pausing.py::test_pause_and_resume TIMES=20 LOAD=8

Prints what became of each run, and leaves the output of a failed one in build/repeat. Ends with 1
if one failed.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OUTPUT = Path("build", "repeat")
# It ends with the process that started it, however that ends.
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))"


@contextmanager
def busy(processes: int) -> Iterator[None]:
    started = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def main() -> int:
    """Repeat the test; return 1 if a run failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("test", help="a test, a file or a folder, as pytest takes them")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--load", type=int, default=0, help="how many busy processes run beside it")
    options = parser.parse_args()
    if not options.test:
        parser.error("name a test: make repeat TEST=tests/live/test_pausing.py")
    OUTPUT.mkdir(parents=True, exist_ok=True)
    failed = 0
    with busy(options.load):
        for number in range(1, options.times + 1):
            began = time.monotonic()
            log = OUTPUT / f"{number}.log"
            with log.open("wb") as output:
                command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", options.test]
                code = subprocess.run(command, stdout=output, stderr=output, check=False).returncode
            failed += code != 0
            became = f"failed with exit code {code}, see {log}" if code else "passed"
            took_s, load = time.monotonic() - began, os.getloadavg()[0]
            print(f"{number:3} {took_s:6.1f} s  load {load:4.1f}  {became}", flush=True)
            if not code:
                log.unlink()
    print(f"{options.times - failed} of {options.times} runs passed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
