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
from datetime import UTC, datetime, timedelta
from itertools import islice

import pandas as pd
from fresh_runs import Steps, main

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
from toolkit.plan import Plan
from toolkit.planning.changes.reset import plan_reset
from toolkit.planning.changes.targets import ShiftBy
from toolkit.planning.frames.plan_frames import review_frame, summary

TIMED = 500  # records of which the time is read
PARTITIONS_PER_TOPIC, COMMITS_PER_GROUP, TOPICS = 100, 1_000, 100
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def plan_all(facts: Snapshot) -> Plan:
    return plan_reset(facts, ShiftBy(-1_000), groups=["*"])


def with_fingerprint(plan: Plan) -> Plan:
    if not plan.fingerprint:
        sys.exit("the plan has no name")
    return plan


def preview(plan: Plan) -> tuple[pd.DataFrame, str]:
    times = {
        (change.partition, position.offset): NOON
        for _, change in islice(plan.changes, TIMED // 2)
        for position in (change.before, change.after)
        if position
    }
    return review_frame(plan, times), summary(plan)


def check(previewed: tuple[pd.DataFrame, str], size: int) -> None:
    frame, sentence = previewed
    if len(frame) != size or not sentence.startswith(f"{size:,} partitions"):
        sys.exit(f"not what was to be planned: {sentence}")


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
    steps = {"plan": plan_all, "fingerprint": with_fingerprint, "preview": preview}
    main(Steps(__file__, __doc__, "partitions", made_up, steps, check, about))
