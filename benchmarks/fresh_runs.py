"""Measure steps of pure code for several sizes, each run in a fresh process, as a table."""

import json
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from results import machine, median_of, say, spread
from small_options import new_parser, parse_options

SIZES, SMALL = (50_000, 1_000_000), (10_000,)


class Steps(NamedTuple):
    """
    What one script measures.

    `measure` takes a size, and returns seconds by step, and `facts_mib` and `peak_mib`.
    """

    script: str
    description: str | None
    unit: str
    names: Sequence[str]
    measure: Callable[[int], dict[str, float]]
    about: str = ""


def main(steps: Steps) -> None:
    """Run the script: one size in this process, or all sizes in fresh ones."""
    parser = new_parser(steps.description)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--once", type=int, help="measure one size in this process")
    parser.set_defaults(sizes=SIZES)
    options = parse_options(parser, rounds=1, sizes=SMALL)
    if options.once:
        print(json.dumps(steps.measure(options.once)))
        return
    print("\n".join(_report(steps, options.sizes, options.rounds)))


def peak_mib() -> float:
    # Linux counts the peak in KiB, macOS in bytes.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def _report(steps: Steps, sizes: Sequence[int], rounds: int) -> Iterator[str]:
    """Yield the result as Markdown, after measuring each size so many times."""
    runs = {size: [_fresh(steps, size) for _ in range(rounds)] for size in sizes}
    yield f"{steps.about}{median_of(f'{rounds} runs')} {machine('pandas')}."
    yield ""
    heading = " | ".join(f"{name} s" for name in steps.names)
    yield f"| {steps.unit} | {heading} | together CPU s | added MiB |"
    yield "|---|---|---|---|---|---|"
    for size, taken in runs.items():
        each = [spread([run[name] for run in taken]) for name in steps.names]
        together = spread([sum(run[name] for name in steps.names) for run in taken])
        memory = spread([run["peak_mib"] - run["facts_mib"] for run in taken], ".0f")
        yield f"| {size:,} | {' | '.join(each)} | {together} | {memory} |"


def _fresh(steps: Steps, size: int) -> dict[str, float]:
    command = [sys.executable, steps.script, "--once", str(size)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    taken: dict[str, float] = json.loads(done.stdout)
    say(f"{size:,} {steps.unit}: {taken}")
    return taken
