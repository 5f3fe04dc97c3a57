"""
Plan a copy of committed offsets to a mirror cluster.

If the mirror preserves offsets, they are copied unchanged. Otherwise they are mapped by time: to
the first mirror record at or after the timestamp of the next record the group would read. This
never skips an unread record if the mirror keeps the record order, has not deleted unread records,
and its clock is not behind the source's; timestamps may be out of order. Some records may be
redelivered:

- records with the same timestamp, or out of order, are redelivered;
- a caught-up group has no next record: its last one is redelivered, because the mirror may already
  have later records;
- if the mirror has no record at or after that time, it lags behind: the log end offset is used.

Read the source first, then the mirror; look up the times in the mirror last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from toolkit.errors import UsageError
from toolkit.model import Commit, LogOffsets, Snapshot, TimedOffset, TopicPartition
from toolkit.model.names import shown_name
from toolkit.plan import NEW_GROUP, Intent, Plan, Position
from toolkit.planning.changes.clamp import clamp_to_log, leader_epoch_at, moved_to
from toolkit.planning.changes.copy import about_source, is_new, uncommitted, why_no_source
from toolkit.planning.selection.partition_selection import (
    TopicScope,
    choose_partitions,
    parse_topics,
    scopes_of,
)
from toolkit.planning.selection.plan_parts import Facts, Part, block, commit_step, plan_of

MARKERS = 2  # most transaction markers between a commit and the record before it


@dataclass(frozen=True, slots=True)
class MirrorPair:
    """Source group, target group, and the prefix of topic names on the mirror."""

    source: str
    target: str
    prefix: str = ""  # MirrorMaker's default is the alias of the source and a dot

    def mirrored(self, partition: TopicPartition) -> TopicPartition:
        """Return the mirror partition of a source partition."""
        return TopicPartition(self.prefix + partition.topic, partition.partition)


class MirroredCommit(NamedTuple):
    """One commit of the source, with the logs at both ends."""

    commit: Commit
    source_log: LogOffsets
    partition: TopicPartition  # of the mirror
    log: LogOffsets


@dataclass(frozen=True, slots=True)
class ByOffset:
    """Copy offsets unchanged, for a mirror that preserves them."""

    words: str = "by offset"

    def place(self, both: MirroredCommit) -> tuple[Position | None, str]:
        """Return the same offset, clamped to the mirror's log."""
        position, moved = clamp_to_log(
            Position(both.commit.offset, None, both.commit.metadata), both.log
        )
        epoch = leader_epoch_at(both.log, position.offset)
        why = f"the same offset; {moved}" if moved else "the same offset"
        return Position(position.offset, epoch, position.metadata), why


@dataclass(frozen=True, slots=True)
class ByTime:
    """
    Map offsets by record timestamp.

    `times` are the timestamps of the source records that `records_to_date` lists; `found` are the
    mirror's first records at or after the `instants`, None if there is no such record.
    """

    times: Mapping[tuple[TopicPartition, int], datetime]
    found: Mapping[TopicPartition, TimedOffset | None]
    words: str = "by time"

    def place(self, both: MirroredCommit) -> tuple[Position | None, str]:
        """Return the mirror position of the next record, or None, and the reason."""
        commit, log = both.commit, both.log
        dated = _dated(commit, both.source_log, self.times)
        if dated is None and log.log_start == log.log_end:
            return self._at(both, log.log_end, "the mirror is empty")
        if dated is None:
            return None, f"no source record at or before {commit.offset} has a known timestamp"
        at = f"{dated.at:%Y-%m-%d %H:%M:%S} UTC"
        what = "the next record" if dated.is_next else "the last record read"
        if both.partition not in self.found:
            return None, f"the mirror's offset at {at} is unknown"
        spot = self.found[both.partition]
        if spot is None:
            return self._at(
                both, log.log_end, f"mirror has no record at or after {at} yet: log end offset"
            )
        why = f"{what} has timestamp {at}"
        if not dated.is_next:
            why += "; it is redelivered"
        return self._at(both, spot.offset, why)

    def _at(self, both: MirroredCommit, offset: int | None, why: str) -> tuple[Position, str]:
        landed, clamped = clamp_to_log(Position(offset or 0), both.log)
        # An offset of another log, even where the number is the same.
        position, cleared = moved_to(landed.offset, Position.of(both.commit), both.log)
        return position, "; ".join(filter(None, [why, clamped, cleared]))


def plan_copy_between(
    source: Snapshot,
    mirror: Snapshot,
    *,
    pair: MirrorPair,
    by: ByOffset | ByTime,
    topics: Sequence[str] = (),
) -> Plan:
    """
    Plan to commit the offsets of a source group for a new or empty group on the mirror.

    `topics` are scopes of the source (`TOPIC` or `TOPIC:0,1`); none means all. The mirror's
    snapshot must have the logs of the mirrored topics. Raises UsageError if a scope cannot be
    parsed, or both are the same cluster.
    """
    if source.cluster_id == mirror.cluster_id:
        raise UsageError(
            f"{source.cluster} and {mirror.cluster} are the same cluster, id {source.cluster_id!r}",
            hint="copy within the cluster",
        )
    scopes = parse_topics(topics)
    here, there = Facts.of(source), Facts.of(mirror)
    ends = (
        f"{shown_name(pair.source)} of {source.cluster} to "
        f"{shown_name(pair.target)} of {mirror.cluster}"
    )
    request = ", ".join([f"copy {ends}", *map(str, scopes), by.words])
    return plan_of(
        mirror,
        _copied(here, there, pair=pair, by=by, scopes=scopes),
        intent=Intent.COPY,
        request=request,
        allows=frozenset({NEW_GROUP}),
    )


def _copied(
    here: Facts,
    there: Facts,
    *,
    pair: MirrorPair,
    by: ByOffset | ByTime,
    scopes: Sequence[TopicScope],
) -> Iterator[Part]:
    refusals = tuple(why_no_source(here, pair.source))
    yield from refusals
    if refusals:
        return
    chosen = choose_partitions(here.index, pair.source, scopes)
    yield from chosen.findings
    yield from about_source(here, pair.source, chosen.partitions)
    if not scopes:
        yield from uncommitted(here, pair.source, pair.target)
    committed = here.commits(pair.source)
    mirrored = {pair.mirrored(p): p for p in chosen.partitions if p in committed}
    if not mirrored:
        return
    yield from is_new(there, pair.target)
    found = choose_partitions(
        there.index, pair.target, scopes_of(mirrored), new_topics=True, named_by_operator=False
    )
    yield from found.findings
    here_logs, there_logs = here.index.snapshot.logs, there.index.snapshot.logs
    positions = {}
    for partition in found.partitions:
        origin = mirrored[partition]
        both = MirroredCommit(
            committed[origin], here_logs[origin], partition, there_logs[partition]
        )
        position, why = by.place(both)
        if position is None:
            yield block("unreadable", why, pair.target, partition)
        else:
            positions[partition] = (position, why)
    yield from commit_step(there, pair.target, positions)


class _Dated(NamedTuple):
    at: datetime
    is_next: bool  # it is the next record to read, not an earlier one


def records_to_date(
    source: Snapshot, group_id: str, *, topics: Sequence[str] = ()
) -> frozenset[tuple[TopicPartition, int]]:
    """Return the source records, as partition and offset, whose timestamps are needed."""
    facts = Facts.of(source)
    committed = facts.commits(group_id)
    chosen = choose_partitions(facts.index, group_id, parse_topics(topics))
    return frozenset(
        (partition, offset)
        for partition in chosen.partitions
        if partition in committed
        for offset in _candidates(committed[partition], source.logs[partition])
    )


def instants(
    source: Snapshot, pair: MirrorPair, times: Mapping[tuple[TopicPartition, int], datetime]
) -> dict[TopicPartition, datetime]:
    """Return the timestamp to look up in each mirror partition."""
    dated = {
        pair.mirrored(partition): _dated(commit, source.logs[partition], times)
        for partition, commit in Facts.of(source).commits(pair.source).items()
        if partition in source.logs
    }
    return {partition: found.at for partition, found in dated.items() if found}


def _candidates(commit: Commit, log: LogOffsets) -> Iterator[int]:
    """Yield the offset of the next record, and the possible offsets of the one before it."""
    start, end = log.log_start or 0, log.log_end or 0
    following = min(max(commit.offset, start), end)
    for offset in range(following, following - MARKERS - 1, -1):
        if start <= offset < end:
            yield offset


def _dated(
    commit: Commit, log: LogOffsets, times: Mapping[tuple[TopicPartition, int], datetime]
) -> _Dated | None:
    partition = TopicPartition(commit.topic, commit.partition)
    for offset in _candidates(commit, log):
        if at := times.get((partition, offset)):
            return _Dated(at, is_next=offset >= commit.offset)
    return None
