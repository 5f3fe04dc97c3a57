"""Everything that a plan is made from: a snapshot, and what only plans need to know."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from toolkit.kafka_io.broker_errors import NO_ERROR
from toolkit.kafka_io.chunks import in_chunks
from toolkit.kafka_io.connect import Connection
from toolkit.kafka_io.leader_epochs import with_epochs
from toolkit.kafka_io.leaders import TOPICS_PER_REQUEST, describe_topics, topic_reason
from toolkit.kafka_io.log_offsets import read_log_offsets
from toolkit.kafka_io.offsets_by_time import read_offsets_at
from toolkit.kafka_io.snapshot import OnProgress, Progress, read_snapshot
from toolkit.model import Cluster, Problem, Snapshot, TimedOffset, TopicPartition


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
    `at_time` says where all of them stood `at` an instant. Raises ClusterUnreachable where nobody
    answers; anything smaller that fails becomes a row in `problems`.
    """
    snapshot = read_snapshot(cluster, groups=groups, commit_times=True, on_progress=on_progress)
    with Connection(cluster) as connection:
        on_progress(Progress("topics", 0, len(topics)))
        partitions, missing = _partitions(connection, topics)
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
        snapshot, logs=logs, at=at, at_time=at_time, problems=tuple(dict.fromkeys(problems))
    )


def _partitions(
    connection: Connection, topics: Iterable[str]
) -> tuple[set[TopicPartition], list[Problem]]:
    found: set[TopicPartition] = set()
    problems = []
    for chunk in in_chunks(sorted(set(topics)), TOPICS_PER_REQUEST):
        for topic in describe_topics(connection, chunk):
            if topic.error_code == NO_ERROR:
                found |= {TopicPartition(topic.name, p.partition_index) for p in topic.partitions}
            else:
                why = topic_reason(topic.error_code)
                problems.append(Problem("topic", why, topic=topic.name))
    return found, problems
