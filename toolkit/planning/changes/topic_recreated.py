"""
Detect re-created topics: their earlier offsets refer to different records.

The name stays, the leader epoch starts again, and the broker deletes the committed offsets; only
the topic id differs. Offsets saved from the earlier topic are restored only with an override.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from toolkit.model import Commit, Snapshot, TopicPartition
from toolkit.model.commit_columns import columns_of
from toolkit.model.offsets import NO_LOG, is_another_topic
from toolkit.plan import Change, Finding, Position, Severity, Step
from toolkit.planning.changes.clamp import moved_to
from toolkit.planning.selection.plan_parts import PENDING, Part

RULE = "topic-recreated"
WHY = "topic was deleted and re-created: these offsets refer to records that no longer exist"


def commits_of_earlier_topics(snapshot: Snapshot) -> frozenset[tuple[str, TopicPartition]]:
    """Return the groups and partitions of the commits that were made for an earlier topic."""
    commits, ids = columns_of(snapshot.commits), snapshot.topic_ids
    if not commits.has_topic_ids:
        return frozenset()
    return frozenset(
        (c.group_id, c.topic_partition)
        for c in commits
        if is_another_topic(c.topic_id, ids.get(c.topic))
    )


class Doubt(NamedTuple):
    """Why the committed offset of a group is not to be taken over by another one."""

    rule: str
    why: str


def doubt_of(commit: Commit, topic_ids: Mapping[str, str]) -> Doubt | None:
    """Return why a commit is not to be taken over, with the ids that topics have now, if so."""
    if is_another_topic(commit.topic_id, topic_ids.get(commit.topic)):
        return Doubt(RULE, WHY)
    return Doubt("pending-transaction", PENDING) if commit.pending else None


def position_of(commit: Commit, snapshot: Snapshot) -> Position:
    """Return what a commit says of the topic as it is now: of an earlier one, the offset alone."""
    position = Position.of(commit)
    if not is_another_topic(commit.topic_id, snapshot.topic_ids.get(commit.topic)):
        return position
    log = snapshot.logs.get(commit.topic_partition, NO_LOG)
    return moved_to(commit.offset, position, log)[0]


@dataclass(frozen=True, slots=True)
class OffsetsOrigin:
    """The cluster and the topics, by name, of saved offsets, as far as they are known."""

    cluster_id: str | None = None
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    def is_other_topic(self, topic: str, snapshot: Snapshot) -> bool:
        """Whether a topic was re-created since, on the same cluster."""
        is_here = self.cluster_id in {None, snapshot.cluster_id}
        then, now = self.topic_ids.get(topic), snapshot.topic_ids.get(topic)
        return is_here and is_another_topic(then, now)

    def is_other_log(self, topic: str, snapshot: Snapshot) -> bool:
        """Whether offsets of a topic were committed for another log than it has here."""
        is_elsewhere = self.cluster_id not in {None, snapshot.cluster_id}
        return is_elsewhere or self.is_other_topic(topic, snapshot)


def with_recreated_topics(
    parts: Iterable[Part], origin: OffsetsOrigin, snapshot: Snapshot
) -> Iterator[Part]:
    """
    Yield parts, and a finding for each re-created topic whose earlier offsets a step restores.

    The changes stay in the plan: an override of `topic-recreated` allows them. They have no leader
    epoch of another log: a client that validates its position would find it truncated.
    """
    for part in parts:
        if not isinstance(part, Step):
            yield part
            continue
        topics = sorted({c.partition.topic for c in part.changes if c.after})
        others = {topic for topic in topics if origin.is_other_log(topic, snapshot)}
        changes = (
            _on_this_log(c, origin, snapshot) if c.partition.topic in others else c
            for c in part.changes
        )
        yield replace(part, changes=tuple(changes)) if others else part
        for topic in topics:
            if origin.is_other_topic(topic, snapshot):
                yield Finding(RULE, Severity.BLOCK, WHY, part.group_id, topic)


def _on_this_log(change: Change, origin: OffsetsOrigin, snapshot: Snapshot) -> Change:
    """Return a change with the leader epoch of this log, and no metadata of deleted records."""
    after = change.after
    if after is None:
        return change
    log = snapshot.logs.get(change.partition, NO_LOG)
    position, cleared = moved_to(after.offset, after, log)
    if not origin.is_other_topic(change.partition.topic, snapshot):
        position, cleared = position._replace(metadata=after.metadata), ""
    return change._replace(after=position, why="; ".join(filter(None, [change.why, cleared])))
