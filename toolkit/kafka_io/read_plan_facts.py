"""The facts of a plan: a snapshot, and what only plans need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from toolkit.kafka_io.client.error_codes import ErrorCode
from toolkit.kafka_io.client.leaders import (
    describe_topics,
    described_once,
    topic_id,
    topic_reason,
)
from toolkit.kafka_io.client.shared_connections import connected
from toolkit.kafka_io.logs.log_offsets import read_log_offsets, read_offsets_at, with_epochs
from toolkit.kafka_io.read_snapshot import OnProgress, Progress, snapshot_over
from toolkit.model import Cluster, Problem, Snapshot, TimedOffset, TopicPartition, Unread


@described_once()
def read_plan_facts(
    cluster: Cluster,
    *,
    groups: Sequence[str],
    topics: Sequence[str] = (),
    at: datetime | None = None,
    on_progress: OnProgress = lambda _: None,
) -> Snapshot:
    """
    Read some groups as `read_snapshot` does, with commit times, and what plans need beyond that.

    `logs` has every partition of each of the `topics` too, each log has its leader epochs, and
    `at_time` says where all of them stood `at` an instant; `topic_ids` has all their topics. Raises
    ClusterUnreachable where no broker answers; anything smaller that fails becomes a row in
    `problems`.
    """
    with connected(cluster) as connection:
        snapshot = snapshot_over(
            connection, groups=groups, commit_times=True, on_progress=on_progress
        )
        on_progress(Progress("topics", 0, len(topics)))
        committed = {commit.topic for commit in snapshot.commits}
        named = sorted({*topics, *committed, *(place.topic for place in snapshot.logs)})
        described = {topic.name: topic for topic in describe_topics(connection, named)}
        partitions, missing = _partitions(described, topics)
        more, unread = read_log_offsets(connection, partitions - snapshot.logs.keys())
        logs = {**snapshot.logs, **more}
        on_progress(Progress("leader epochs", 0, len(logs)))
        logs, unled = with_epochs(connection, logs)
        at_time: dict[TopicPartition, TimedOffset | None] = {}
        untimed: list[Problem] = []
        if at is not None:
            on_progress(Progress("offsets by time", 0, len(logs)))
            at_time, untimed = read_offsets_at(connection, dict.fromkeys(logs, at))
    problems = (*snapshot.problems, *missing, *unread, *unled, *untimed)
    return replace(
        snapshot,
        logs=logs,
        at=at,
        at_time=at_time,
        topic_ids={name: found for name, topic in described.items() if (found := topic_id(topic))},
        problems=tuple(dict.fromkeys(problems)),
    )


def _partitions(
    described: Mapping[str, Any], topics: Sequence[str]
) -> tuple[set[TopicPartition], list[Problem]]:
    found: set[TopicPartition] = set()
    problems = []
    for name in sorted(described.keys() & set(topics)):
        topic = described[name]
        if topic.error_code == ErrorCode.NONE:
            found |= {TopicPartition(name, p.partition_index) for p in topic.partitions}
        else:
            problems.append(Problem(Unread.TOPIC, topic_reason(topic.error_code), topic=name))
    return found, problems
