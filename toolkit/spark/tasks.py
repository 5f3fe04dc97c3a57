"""
What workers do to read a fleet's offsets topics: one task for each cluster and partition.

A cluster where the topic may not be read gives the same rows from the Admin protocol, marked with
what they lack. What could not be read is a row whose `problem` says why, so a cluster that is down
is seen in the result and does not stop the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from toolkit.errors import ToolkitError
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.shared_connections import SharedConnections
from toolkit.kafka_io.groups.commits import read_commits
from toolkit.kafka_io.groups.describe_groups import describe_groups
from toolkit.kafka_io.groups.ended_groups import commits_without, without_ended
from toolkit.kafka_io.groups.hidden_by_acls import find_hidden
from toolkit.kafka_io.groups.listing import list_groups
from toolkit.kafka_io.logs.log_offsets import existing_topics
from toolkit.kafka_io.offsets_topic.partitions import partition_of
from toolkit.kafka_io.offsets_topic.reader import (
    OffsetsRead,
    read_offsets_log,
    with_unstable_tail,
)
from toolkit.model import Cluster, Group, LogOffsets, Problem
from toolkit.model.names import shown_name
from toolkit.spark.read_plan import ReadPlan
from toolkit.spark.schemas import WHOLE
from toolkit.spark.source_rows import (
    block_batch,
    commits_by_admin,
    groups_by_admin,
    problem_batches,
    tail_table,
)

# A worker reads many partitions of a cluster, one after the other.
_CONNECTIONS = SharedConnections()


@dataclass(frozen=True)
class AdminTask:
    """Read commits through the Admin protocol: of a cluster, or of one offsets partition."""

    cluster: Cluster
    why: str
    only: tuple[int, int] | None = None  # the partition, and of how many

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the commits and groups, and a problem that says what they lack."""
        of = f"partition {self.only[0]} of the offsets topic" if self.only else "the cluster"
        said = [f"{of} was read through the Admin API, without commit times: {self.why}"]
        with Connection(self.cluster) as connection:
            listed, unlisted = list_groups(connection)
            hidden = find_hidden(connection)
            policy = self.cluster.policy
            wanted = (group for group in listed if not policy.ignores(group.group_id))
            groups = [group for group in wanted if self._holds(group.group_id)]
            commits, unread = read_commits(connection, [group.group_id for group in groups])
            described = list(
                describe_groups(connection, groups, topics=lambda: existing_topics(connection))
            )
            known, ended = without_ended(
                connection, [one for one in described if isinstance(one, Group)]
            )
            commits = commits_without(commits, ended) if ended else commits
        yield block_batch(
            self.cluster,
            self.only[0] if self.only else WHOLE,
            commits=commits_by_admin(commits),
            groups=groups_by_admin(known),
        )
        undescribed = [one for one in described if isinstance(one, Problem)]
        for problem in (*unlisted, *hidden, *unread, *undescribed):
            name = problem.group_id
            subject = "" if name is None else f" of group {shown_name(name)}"
            said.append(f"{problem.what}{subject}: {problem.why}")
        yield from problem_batches(self.cluster, said)

    def _holds(self, group_id: str) -> bool:
        return self.only is None or partition_of(group_id, self.only[1]) == self.only[0]


@dataclass(frozen=True)
class OffsetsTopicInfo:
    """What all partitions of one cluster's offsets topic have in common."""

    cluster: Cluster
    topic_id: str
    partitions: int  # how many it has
    delete_retention_ms: int | None
    asked_at: datetime


@dataclass(frozen=True)
class LogTask:
    """Read one partition of one cluster's offsets topic."""

    topic: OffsetsTopicInfo
    number: int
    log: LogOffsets
    leader_epoch: int | None
    plan: ReadPlan

    @property
    def cluster(self) -> Cluster:
        """The cluster that is read."""
        return self.topic.cluster

    def batches(self) -> Iterator[pa.RecordBatch]:
        """
        Yield what the partition holds, and a problem for each kind of record not understood.

        Where the partition may not be read, or too much is behind an open transaction, commits come
        through Admin instead: older values would look like lag, and new groups would be missing.
        """
        tail: dict[str, pa.Table] = {}
        try:
            with _CONNECTIONS.in_use():
                found = read_offsets_log(self.cluster, self.number, self.log, start=self.plan.start)
                if found.unstable_tail:
                    found, behind = with_unstable_tail(self.cluster, self.number, self.log, found)
                    tail["tail"] = tail_table(behind.commits, behind.pending)
        except ToolkitError as exc:
            yield from self._by_admin(str(exc))
            return
        yield block_batch(
            self.cluster,
            self.number,
            **tail,
            read_to=self._read_to(found),
            latest=found.latest,
            activity=found.activity,
            removals=found.removals,
        )
        where = f"partition {self.number} of the offsets topic"
        said = [
            f"{count} records of {where} could not be parsed: {why}"
            for why, count in found.malformed.items()
        ]
        yield from problem_batches(self.cluster, said)

    def _read_to(self, found: OffsetsRead) -> dict[str, Any]:
        return {
            "partitions": self.topic.partitions,
            "topic_id": self.topic.topic_id,
            "delete_retention_ms": self.topic.delete_retention_ms,
            "leader_epoch": self.leader_epoch,
            "start": self.plan.start,
            "next_offset": found.next_offset,
            "log_start": self.log.log_start,
            "records": found.records,
            "read_at": self.topic.asked_at,
            "why_full": self.plan.why_full,
        }

    def _by_admin(self, why: str) -> Iterator[pa.RecordBatch]:
        return AdminTask(self.cluster, why, (self.number, self.topic.partitions)).batches()


@dataclass(frozen=True)
class ProblemTask:
    """Stand in for a cluster that could not be reached when the work was cut up."""

    cluster: Cluster
    why: str

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the problem."""
        return problem_batches(self.cluster, [self.why])


Task = LogTask | AdminTask | ProblemTask
