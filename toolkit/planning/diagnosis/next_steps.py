"""Recommend the next notebook and its parameters for a diagnosed group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from toolkit.model import Group, TopicPartition
from toolkit.model.names import ExactName
from toolkit.planning.diagnosis.progress_rules import Verdict
from toolkit.planning.selection.partition_selection import scopes_of

MOST_FIRST_STEPS = 3  # offsets to move one by one; more belong in a table


@dataclass(frozen=True, slots=True)
class NextStep:
    """One recommended step; without a notebook it is done outside offsetbook."""

    title: str
    why: str
    notebook: str = ""
    parameters: Mapping[str, object] = field(default_factory=dict)  # without the cluster


def next_steps(partitions: pd.DataFrame, group: Group, *, cluster: str) -> tuple[NextStep, ...]:
    """
    Return the recommended steps for a group, most urgent first.

    `partitions` is what `diagnose_partitions` returned. There is always at least one step.
    """
    verdicts = partitions["verdict"]
    found = {verdict: _places(partitions[verdicts == str(verdict)]) for verdict in Verdict}
    steps = [
        *_stuck(partitions, found, group.group_id),
        *_outside(partitions, found[Verdict.OUT_OF_RANGE], group.group_id),
        *_transaction(found[Verdict.TRANSACTION]),
        *_paused(found[Verdict.PAUSED], group.group_id),
        *_left_over(found[Verdict.UNSUBSCRIBED], group.group_id),
        *_unread(group, cluster),
    ]
    if found[Verdict.POSSIBLY_STUCK]:
        why = "It distinguishes a slow commit from a stuck partition."
        values = {"groups": [ExactName(group.group_id)], "sample_interval": "2m"}
        steps.append(
            NextStep("Sample again over a longer interval", why, "90_troubleshoot_group", values)
        )
    return tuple(steps) or (_nothing(cluster),)


def _stuck(
    partitions: pd.DataFrame, found: Mapping[Verdict, Sequence[TopicPartition]], group_id: str
) -> Iterator[NextStep]:
    stuck = found[Verdict.STUCK]
    if not stuck:
        return
    topics = _topics(stuck)
    yield NextStep(
        f"Pause {', '.join(topics)}",
        "The group keeps consuming the other partitions after a short interruption; no consumer "
        "is restarted. Without an approval it is a dry run that shows the impact.",
        "40_pause_partitions",
        {"groups": [ExactName(group_id)], "topics": topics},
    )
    # The committed offset may be that of a transaction marker, or of a record compacted away.
    known = partitions["first_unread"].fillna(partitions["committed"])
    rows = known.set_axis(pd.MultiIndex.from_frame(partitions[["topic", "partition"]]))
    for partition in stuck[:MOST_FIRST_STEPS]:
        record = int(rows[tuple(partition)])
        yield NextStep(
            f"While it is paused, skip record {record:,} of "
            f"{partition.topic}:{partition.partition}",
            "If this record cannot be processed: inspect it above and save a copy first. The "
            "group will not read it again.",
            "50_reset_offsets",
            {
                "groups": [ExactName(group_id)],
                "topics": [f"{partition.topic}:{partition.partition}"],
                "mode": "to-offset",
                "value": str(record + 1),
                "overrides": ["skips-unread-records"],  # this record, and no other
            },
        )
    yield NextStep(
        "Then resume the partitions",
        "The members continue from the new offset.",
        "40_pause_partitions",
        {"action": "resume", "groups": [ExactName(group_id)], "topics": topics},
    )


def _outside(
    partitions: pd.DataFrame, outside: Sequence[TopicPartition], group_id: str
) -> Iterator[NextStep]:
    beyond = partitions[partitions["committed"] > partitions["log_end"]]
    past_end = sorted(set(outside).intersection(_places(beyond)))
    if past_end:
        yield NextStep(
            "Move the offsets that are past the log end into the log",
            "The offsets are past the log end. If the topic was re-created, the group has read "
            "none of its records: to-earliest skips none, to-datetime only older ones. If the log "
            "was truncated, to-current repeats none.",
            "50_reset_offsets",
            {"groups": [ExactName(group_id)], "topics": _topics(past_end), "mode": "to-earliest"},
        )
    if before_start := sorted(set(outside) - set(past_end)):
        yield NextStep(
            "Clamp its offsets to the log",
            "The offsets are out of range; consumers would fall back to auto.offset.reset.",
            "50_reset_offsets",
            {
                "groups": [ExactName(group_id)],
                "topics": _topics(before_start),
                "mode": "to-current",
            },
        )


def _transaction(partitions: Sequence[TopicPartition]) -> Iterator[NextStep]:
    if partitions:
        yield NextStep(
            "Find the producer of the open transaction",
            f"{', '.join(_topics(partitions))}: read_committed consumers wait until it ends. "
            "kafka-transactions.sh describe-producers --topic TOPIC --partition N shows the "
            "producer. If it is still running, it must commit or abort; abort it from outside "
            "only if kafka-transactions.sh find-hanging lists it. Moving the group's offset does "
            "not help.",
        )


def _paused(partitions: Sequence[TopicPartition], group_id: str) -> Iterator[NextStep]:
    if partitions:
        yield NextStep(
            f"Resume {', '.join(_topics(partitions))} when the reason for the pause is gone",
            "They are paused; the table of paused partitions shows by whom and why.",
            "40_pause_partitions",
            {"action": "resume", "groups": [ExactName(group_id)], "topics": _topics(partitions)},
        )


def _left_over(partitions: Sequence[TopicPartition], group_id: str) -> Iterator[NextStep]:
    if partitions:
        yield NextStep(
            "Delete unsubscribed offsets",
            "No member subscribes to these topics; their lag grows until the offsets expire.",
            "60_delete_offsets",
            {"groups": [ExactName(group_id)], "topics": sorted({p.topic for p in partitions})},
        )


def _unread(group: Group, cluster: str) -> Iterator[NextStep]:
    if not group.is_live:
        yield NextStep(
            "Check when its offsets expire",
            "The offsets of a group without members expire, unless they are rescued.",
            "30_expiry_forecast",
            {"clusters": [cluster], "groups": [ExactName(group.group_id)]},
        )
        yield NextStep(
            "Delete the group",
            "Only if no consumer will use it again. Its committed offsets are saved first.",
            "61_delete_groups",
            {"groups": [ExactName(group.group_id)]},
        )


def _nothing(cluster: str) -> NextStep:
    return NextStep(
        "See its history",
        "No partition is stuck now. See fleet lag for status, rates and trend.",
        "10_fleet_lag",
        {"clusters": [cluster]},
    )


def _places(rows: Any) -> list[TopicPartition]:
    return [
        TopicPartition(topic, int(partition))
        for topic, partition in zip(rows["topic"], rows["partition"], strict=True)
    ]


def _topics(partitions: Sequence[TopicPartition]) -> list[str]:
    return [str(scope) for scope in scopes_of(partitions)]
