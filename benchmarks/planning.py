"""
Planning a reset and showing it: no broker, the facts are made up.

Each size is measured in a fresh process, in CPU time (nothing is waited for), in the steps that a
reviewer waits for:

    plan         plan_reset of every partition of every group, shifted back
    fingerprint  the name of the plan that an approval repeats
    preview      review_frame of every change, with the times of the first 500 records, which are
                 all that a reviewer gets, and the sentence
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from itertools import islice
from statistics import median

from toolkit.model import (
    Commit,
    EpochEnd,
    Group,
    GroupState,
    GroupType,
    LogOffsets,
    Snapshot,
    TopicPartition,
)
from toolkit.planning.changes.reset import plan_reset
from toolkit.planning.changes.targets import ShiftBy
from toolkit.planning.frames.review_frame import review_frame, summary

SIZES = (50_000, 1_000_000)
TIMED = 500  # records of which the time is read
PARTITIONS_PER_TOPIC, COMMITS_PER_GROUP, TOPICS = 100, 1_000, 100
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
STEPS = ("plan", "fingerprint", "preview")


def main() -> None:
    options = _options()
    if options.once:
        print(json.dumps(measure(options.once)))
        return
    print("\n".join(report(SIZES, options.rounds)))


def measure(size: int) -> dict[str, float]:
    """Return what each step took in seconds, and the peak of memory in MiB, for one size."""
    facts = made_up(size)
    facts_mib = peak_mib()
    began = time.process_time()
    plan = plan_reset(facts, ShiftBy(-1_000), groups=["*"])
    planned = time.process_time()
    name = plan.fingerprint
    named = time.process_time()
    times = {
        (change.partition, position.offset): NOON
        for _, change in islice(plan.changes, TIMED // 2)
        for position in (change.before, change.after)
        if position
    }
    ready = time.process_time()
    frame, sentence = review_frame(plan, times), summary(plan)
    shown = time.process_time()
    if len(frame) != size or not sentence.startswith(f"{size:,} partitions") or not name:
        sys.exit(f"not what was to be planned: {sentence}")
    steps = zip(STEPS, (planned - began, named - planned, shown - ready), strict=True)
    return {**dict(steps), "facts_mib": facts_mib, "peak_mib": peak_mib()}


def made_up(size: int) -> Snapshot:
    """Return idle groups that have committed so many offsets between them."""
    places = [
        TopicPartition(f"topic-{topic:03}", number)
        for topic in range(TOPICS)
        for number in range(PARTITIONS_PER_TOPIC)
    ]
    epochs = (EpochEnd(0, 400_000), EpochEnd(1, 700_000), EpochEnd(2, 2_000_000))
    names = [f"group-{number:05}" for number in range(-(-size // COMMITS_PER_GROUP))]
    commits = []
    for number in range(size):
        place = places[(number // COMMITS_PER_GROUP * 7 + number) % len(places)]
        group = names[number // COMMITS_PER_GROUP]
        at = NOON - timedelta(days=2)
        commits.append(Commit(group, *place, 500_000 + number, 1, committed_at=at))
    return Snapshot(
        cluster="benchmark",
        cluster_id="id",
        taken_at=NOON,
        groups=tuple(Group(n, GroupType.CLASSIC, GroupState.EMPTY, "consumer") for n in names),
        commits=tuple(commits),
        logs={place: LogOffsets(0, 2_000_000, 2_000_000, epochs) for place in places},
    )


def report(sizes: Sequence[int], rounds: int) -> Iterator[str]:
    """Yield the result as Markdown, after measuring each size so many times."""
    runs = {size: [_fresh(size) for _ in range(rounds)] for size in sizes}
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    yield (
        f"{COMMITS_PER_GROUP:,} commits a group. Median (lowest–highest) of {rounds} runs, "
        f"{datetime.now(UTC):%Y-%m-%d}. Python {platform.python_version()}, "
        f"pandas {version('pandas')}; {platform.system()} {platform.machine()}, "
        f"{os.cpu_count()} CPUs, load average {load}."
    )
    yield ""
    yield "| partitions | plan s | fingerprint s | preview s | together CPU s | added MiB |"
    yield "|---|---|---|---|---|---|"
    for size, taken in runs.items():
        steps = [spread([run[step] for run in taken], 2) for step in STEPS]
        together = spread([sum(run[step] for step in STEPS) for run in taken], 2)
        memory = spread([run["peak_mib"] - run["facts_mib"] for run in taken], 0)
        yield f"| {size:,} | {' | '.join(steps)} | {together} | {memory} |"


def _fresh(size: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--once", str(size)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    taken: dict[str, float] = json.loads(done.stdout)
    print(f"{size:,} partitions: {taken}", file=sys.stderr)
    return taken


def peak_mib() -> float:
    # Linux counts the peak in KiB, macOS in bytes.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def spread(values: Sequence[float], digits: int) -> str:
    return f"{median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--once", type=int, help="measure one size in this process")
    return parser.parse_args()


if __name__ == "__main__":
    main()
