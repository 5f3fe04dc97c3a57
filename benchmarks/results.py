"""What the results of benchmarks have in common: on what they were measured, and how they vary."""

import os
import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from statistics import median

import psutil


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


def say(words: str) -> None:
    """Tell the progress, apart from the result."""
    print(words, file=sys.stderr)
