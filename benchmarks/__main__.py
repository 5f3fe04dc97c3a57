"""
Run every benchmark, one after the other, and write all results as one table.

    python benchmarks           what is published: benchmarks/RESULTS.md
    python benchmarks --small   whether each of them works, with tiny sizes; nothing is written

A benchmark is a script in this folder. It prints Markdown tables on stdout and its progress on
stderr, fails with a status, and has the option `--small`; `ALSO_RUN` in it lists further command
lines. One that fails is a row of the table, and the status of all is then 1.
"""

import argparse
import ast
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from measuring import machine, markdown, new_parser

from toolkit.sandbox.jars import VERSION

HERE = Path(__file__).parent
GUARD = 'if __name__ == "__main__":'
PACKAGES = ("kafka-python", "confluent-kafka", "pandas", "pyarrow", "pyspark", "jupyterlab")
LIMIT_S = 3 * 60 * 60  # of one benchmark, far above what any takes
REFUSED = 3
REFUSAL = """\
Refused: the load average is {:.1f}, and results of a loaded machine would mislead (limit {:g}).
End what else runs, wait until `uptime` shows less, and repeat.
To only try whether the benchmarks work: python benchmarks --small"""
COLUMNS = ("benchmark", "measured", "result", "load before", "took s")


class Result(NamedTuple):
    """What one benchmark printed, or why it failed."""

    name: str
    load_before: float
    took_s: float
    printed: str
    failure: str = ""


def main() -> None:
    options = _options()
    load = os.getloadavg()[0]
    if load > options.max_load and not options.small:
        print(REFUSAL.format(load, options.max_load), file=sys.stderr)
        sys.exit(REFUSED)
    results = [
        _run(script, words)
        for script in benchmarks(options.folder)
        for words in _command_lines(script, is_small=options.small)
    ]
    written = "\n".join(_document(results, load)) + "\n"
    print(written)
    if not options.small:
        (options.folder / "RESULTS.md").write_text(written, "utf-8")
    if failed := [result.name for result in results if result.failure]:
        sys.exit(f"failed: {', '.join(failed)}")


def benchmarks(folder: Path) -> Iterator[Path]:
    """Yield the scripts of a folder; its other files are only imported by them."""
    for path in sorted(folder.glob("*.py")):
        if GUARD in path.read_text("utf-8") and path.name != Path(__file__).name:
            yield path


def _command_lines(script: Path, *, is_small: bool) -> Iterator[tuple[str, ...]]:
    if is_small:
        yield ("--small",)
        return
    yield ()
    for line in ast.parse(script.read_text("utf-8")).body:
        if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "ALSO_RUN":
            yield from ast.literal_eval(line.value)


def _run(script: Path, words: Sequence[str]) -> Result:
    name, load, began = " ".join([script.name, *words]), os.getloadavg()[0], time.monotonic()
    print(f"== {name}", file=sys.stderr, flush=True)
    command = [sys.executable, str(script), *words]
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as output,
        subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE, text=True) as process,
    ):
        # As Ctrl-C does, upon which it ends the brokers that it started.
        limit = threading.Timer(LIMIT_S, process.send_signal, [signal.SIGINT])
        limit.start()
        last = ""
        for line in process.stderr or ():
            print(line, end="", file=sys.stderr, flush=True)
            last = line.strip() or last
        status = process.wait()
        limit.cancel()
        output.seek(0)
        printed = output.read().strip()
    failure = f"failed with status {status}: {last}" if status else ""
    if not failure and not list(_rows(printed)):
        failure = "failed: it printed no table"
    return Result(name, load, time.monotonic() - began, printed, failure)


def _document(results: Sequence[Result], load: float) -> Iterator[str]:
    yield "# Results of all benchmarks"
    yield ""
    yield f"{_surroundings()} at the end, {load:.1f} before the first one."
    yield ""
    rows = []
    for result in results:
        about = f"{result.load_before:.1f}", f"{result.took_s:.0f}"
        if result.failure:
            why = result.failure.replace("|", "\\|")
            rows.append((result.name, "–", f"**{why}**", *about))
        rows += [(result.name, *found, *about) for found in _rows(result.printed)]
    yield from markdown(COLUMNS, rows)
    for result in results:
        yield from ("", f"## {result.name}", "", result.printed or result.failure)


def _rows(printed: str) -> Iterator[tuple[str, str]]:
    """Yield each row of each Markdown table: what it is about, and the other cells, named."""
    heading: list[str] = []
    for line in printed.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not line.startswith("|"):
            heading = []
        elif not heading:
            heading = cells
        elif not line.startswith("|---"):
            others = zip(heading[1:], cells[1:], strict=False)
            yield f"{heading[0]} {cells[0]}".strip(), "; ".join(f"{h} {c}" for h, c in others)


def _surroundings() -> str:
    commit = subprocess.run(
        ["git", "-C", str(HERE), "describe", "--always", "--dirty"],  # noqa: S607 - the user's git
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return (
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, offsetbook {version('offsetbook')} at "
        f"{commit or 'an unknown commit'}. Apache Kafka {VERSION}, {machine(*PACKAGES)}"
    )


def _options() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--small", action="store_true", help="only try whether all work")
    parser.add_argument("--max-load", type=float, default=1, help="above it nothing is run")
    parser.add_argument("--folder", type=Path, default=HERE, help="of the benchmarks")
    return parser.parse_args()


if __name__ == "__main__":
    main()
