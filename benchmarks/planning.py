"""
Planning a reset and showing it: no broker, the facts are made up.

Each size is measured in a fresh process, in CPU time (nothing is waited for), in the steps that a
reviewer waits for:

    plan         plan_reset of every partition of every group, shifted back
    fingerprint  the name of the plan that an approval repeats
    preview      review_frame of every change, with the times of the first 500 records, which are
                 all that a reviewer gets, and the sentence
"""

import sys
import time
from datetime import UTC, datetime, timedelta
from itertools import islice

from fresh_runs import Steps, main, peak_mib

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
from toolkit.planning.frames.plan_frames import review_frame, summary

TIMED = 500  # records of which the time is read
PARTITIONS_PER_TOPIC, COMMITS_PER_GROUP, TOPICS = 100, 1_000, 100
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
STEPS = ("plan", "fingerprint", "preview")


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


if __name__ == "__main__":
    about = f"{COMMITS_PER_GROUP:,} commits a group. "
    main(Steps(__file__, __doc__, "partitions", STEPS, measure, about))
