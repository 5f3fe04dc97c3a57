"""Measure steps of pure code for several sizes, each run in a fresh process, as a table."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from measuring import (
    machine,
    markdown,
    median_of,
    new_parser,
    parse_options,
    peak_mib,
    say,
    spread,
)

SIZES, SMALL = (50_000, 1_000_000), (10_000,)


class Steps(NamedTuple):
    """
    What one script measures: steps, each of which takes what the one before returned.

    `made_up` returns the facts of a size, for the first step; `check` gets the last result and the
    size, and ends the process if it is wrong.
    """

    script: str
    description: str | None
    unit: str
    made_up: Callable[[int], Any]
    steps: Mapping[str, Callable[[Any], Any]]
    check: Callable[[Any, int], None]
    about: str = ""


def main(steps: Steps) -> None:
    """Run the script: one size in this process, or all sizes in fresh ones."""
    parser = new_parser(steps.description)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--once", type=int, help="measure one size in this process")
    parser.set_defaults(sizes=SIZES)
    options = parse_options(parser, rounds=1, sizes=SMALL)
    if options.once:
        print(json.dumps(_measure(steps, options.once)))
        return
    print("\n".join(_report(steps, options.sizes, options.rounds)))


def _measure(steps: Steps, size: int) -> dict[str, float]:
    """Return what each step took in CPU seconds, and the peak of memory in MiB."""
    results, took = [steps.made_up(size)], {"facts_mib": peak_mib()}
    for name, step in steps.steps.items():
        began = time.process_time()
        results.append(step(results[-1]))
        took[name] = time.process_time() - began
    steps.check(results[-1], size)
    return {**took, "peak_mib": peak_mib()}


def _report(steps: Steps, sizes: Sequence[int], rounds: int) -> Iterator[str]:
    """Yield the result as Markdown, after measuring each size so many times."""
    runs = {size: [_fresh(steps, size) for _ in range(rounds)] for size in sizes}
    yield f"{steps.about}{median_of(f'{rounds} runs')} {machine('pandas')}."
    yield ""
    rows = []
    for size, taken in runs.items():
        each = [spread([run[name] for run in taken]) for name in steps.steps]
        together = spread([sum(run[name] for name in steps.steps) for run in taken])
        memory = spread([run["peak_mib"] - run["facts_mib"] for run in taken], ".0f")
        rows.append((f"{size:,}", *each, together, memory))
    each_step = (f"{name} s" for name in steps.steps)
    yield from markdown((steps.unit, *each_step, "together CPU s", "added MiB"), rows)


def _fresh(steps: Steps, size: int) -> dict[str, float]:
    command = [sys.executable, steps.script, "--once", str(size)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    taken: dict[str, float] = json.loads(done.stdout)
    say(f"{size:,} {steps.unit}: {taken}")
    return taken
