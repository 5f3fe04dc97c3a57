"""What benchmarks share: options, a broker of their own, runs in turns, and tables of results."""

import argparse
import os
import platform
import resource
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any, TypeVar

import psutil

from toolkit.sandbox.broker import start_broker

T = TypeVar("T")


def new_parser(description: str | None) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def groups_parser(description: str | None, groups: int = 5000) -> argparse.ArgumentParser:
    """Return a parser of how many groups with how many commits are read, and how often."""
    parser = new_parser(description)
    parser.add_argument("--groups", type=int, default=groups)
    parser.add_argument("--commits", type=int, default=20, help="in each group, at most 1,000")
    parser.add_argument("--rounds", type=int, default=3)
    return parser


def parse_options(parser: argparse.ArgumentParser, **small: Any) -> argparse.Namespace:
    """Parse the command line; `small` are the values of options that `--small` sets."""
    parser.add_argument(
        "--small", action="store_true", help="try whether it works; the figures mean nothing"
    )
    if "--small" in sys.argv:
        parser.set_defaults(**small)
    return parser.parse_args()


@contextmanager
def own_broker(
    properties: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[tuple[str, Path]]:
    """Start a broker; yield its address, and a folder that goes with it in the end."""
    with tempfile.TemporaryDirectory(prefix="offsetbook-benchmark-") as name:
        broker = start_broker(Path(name) / "benchmark", properties=properties, on_step=say)
        try:
            yield broker.address, Path(name)
        finally:
            broker.stop()


def in_turns(
    ways: Mapping[str, Callable[[], T]],
    rounds: int,
    told: Callable[[T], object],
    *,
    warm_up: int = 1,
) -> dict[str, list[T]]:
    """
    Run every way once a round, so that a slow minute of the machine hits all of them.

    The rounds to warm up are not counted. `told` is what is shown of a run as progress.
    """
    taken: dict[str, list[T]] = {name: [] for name in ways}
    for number in range(1 - warm_up, rounds + 1):
        for name, way in ways.items():
            run = way()
            say(f"round {number}: {name} {told(run)}")
            if number > 0:
                taken[name].append(run)
    return taken


def peak_mib() -> float:
    """Return the most memory that this process has used so far."""
    return in_mib(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def in_mib(peak: int) -> float:
    # Linux counts the peak in KiB, macOS in bytes.
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def machine(*packages: str) -> str:
    """Return the versions of Python and of packages, the machine, and its load now."""
    versions = [f"Python {platform.python_version()}", *(f"{p} {version(p)}" for p in packages)]
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{', '.join(versions)}; {platform.system()} {platform.machine()}, {os.cpu_count()} CPUs, "
        f"{psutil.virtual_memory().total / 2**30:.0f} GiB, load average {load}"
    )


def median_of(runs: str) -> str:
    """Return what `spread` has of so many runs, and the day."""
    return f"Median (lowest–highest) of {runs}, {datetime.now(UTC):%Y-%m-%d}."


def spread(values: Sequence[float], form: str = ".2f") -> str:
    """Return the median, and the lowest and the highest where they differ."""
    low, middle, high = (f"{one:{form}}" for one in (min(values), median(values), max(values)))
    return middle if low == high else f"{middle} ({low}–{high})"


def markdown(heading: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield line(heading)
    yield "|---" * len(heading) + "|"
    yield from map(line, rows)


def line(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def say(words: str) -> None:
    """Tell the progress, apart from the result."""
    print(words, file=sys.stderr)
