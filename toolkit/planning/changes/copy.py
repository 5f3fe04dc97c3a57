"""
Plan a copy of committed offsets to another group, to a mirror cluster, or a rename.

The other group of the same cluster is new or empty. Offsets, leader epochs and metadata are copied
unchanged. A rename copies everything to a new group and then deletes the old one.

If a mirror preserves offsets, they are copied unchanged. Otherwise they are mapped by time: to the
first mirror record at or after the timestamp of the next record the group would read. This never
skips an unread record if the mirror keeps the record order, has not deleted unread records, and its
clock is not behind the source's; timestamps may be out of order. Some records may be redelivered:

- records with the same timestamp, or out of order, are redelivered;
- a caught-up group has no next record: its last one is redelivered, because the mirror may already
  have later records;
- if the mirror has no record at or after that time, it lags behind: the log end offset is used.

Read the source first, then the mirror; look up the times in the mirror last.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from toolkit.errors import UsageError
from toolkit.model import Commit, GroupType, LogOffsets, Snapshot, TimedOffset, TopicPartition
from toolkit.model.names import shown_name
from toolkit.plan import NEW_GROUP, Action, Change, Finding, Intent, Plan, Position, Severity, Step
from toolkit.planning.changes.clamp import clamp_to_log, leader_epoch_at, moved_to
from toolkit.planning.changes.topic_recreated import doubt_of, position_of
from toolkit.planning.selection.findings import block, note
from toolkit.planning.selection.group_selection import NO_OFFSETS, is_plannable, why_not_idle
from toolkit.planning.selection.partition_selection import (
    TopicScope,
    choose_partitions,
    parse_topics,
    scopes_of,
)
from toolkit.planning.selection.plan_parts import Part, commit_step, plan_of
from toolkit.planning.selection.snapshot_index import SnapshotIndex

MARKERS = 2  # most transaction markers between a commit and the record before it


def plan_copy(snapshot: Snapshot, *, source: str, target: str, topics: Sequence[str] = ()) -> Plan:
    """
    Plan to commit the current offsets of `source` for `target`, a new or empty group.

    `topics` are scopes (`TOPIC` or `TOPIC:0,1`); none means all. Other offsets of the target stay.
    Raises UsageError if a scope cannot be parsed, or a group is copied to itself.
    """
    scopes = parse_topics(topics)
    _check_names(source, target)
    facts = SnapshotIndex(snapshot)

    def parts() -> Iterator[Part]:
        refusals = tuple(why_no_source(facts, source))
        yield from refusals
        if refusals:
            return
        chosen = choose_partitions(facts, source, scopes)
        yield from chosen.findings
        yield from about_source(facts, source, chosen.partitions)
        lacking = _lacking(facts, source, chosen.partitions if scopes else None)
        yield from uncommitted(source, target, lacking - facts.commits_of(target).keys())
        yield from is_new(facts, target)
        yield from commit_step(facts, target, _positions(facts, source, chosen.partitions))

    what = ", ".join([f"copy {shown_name(source)} to {shown_name(target)}", *map(str, scopes)])
    allows = frozenset({NEW_GROUP})
    return plan_of(snapshot, parts(), intent=Intent.COPY, request=what, allows=allows)


def plan_rename(snapshot: Snapshot, *, source: str, target: str) -> Plan:
    """
    Plan to rename an empty group: copy all its offsets, then delete it.

    Brokers cannot rename: the new group is created, and the old one is deleted after the copy was
    verified. Raises UsageError if both names are the same.
    """
    _check_names(source, target)
    facts = SnapshotIndex(snapshot)
    allows = frozenset({NEW_GROUP})
    request = f"rename {shown_name(source)} to {shown_name(target)}"
    parts = _renamed(facts, source, target)
    return plan_of(snapshot, parts, intent=Intent.RENAME, request=request, allows=allows)


def _renamed(facts: SnapshotIndex, source: str, target: str) -> Iterator[Part]:
    refusals = [*why_no_source(facts, source)]
    if group := facts.groups.get(source):
        refusals += why_not_idle(facts, group)
    # Offsets of the old group that could not be read would be lost with it.
    refusals += facts.unreadable(source)
    if target in facts.groups:
        refusals.append(block("group-exists", "a group with this name already exists", target))
    yield from dict.fromkeys(refusals)
    committed = facts.commits_of(source)
    if not committed and not refusals:
        yield note("no-commit", "no committed offsets to copy", source)
    if not committed or refusals:
        return
    missing = {partition: why for partition in committed if (why := facts.why_gone(partition))}
    for partition, why in missing.items():
        yield block("missing-partition", why, source, partition)
    kept = [partition for partition in committed if partition not in missing]
    made = tuple(commit_step(facts, target, _positions(facts, source, kept)))
    yield from about_source(facts, source, kept)
    yield from uncommitted(source, target, without_offset(facts, source))
    yield from made
    if any(isinstance(part, Step) for part in made):
        gone = [
            Change(p, Position.of(c), None, missing.get(p) or f"kept as {shown_name(target)}")
            for p, c in committed.items()
        ]
        yield facts.step(source, Action.DELETE_GROUP, gone, needs=target)


def _positions(
    facts: SnapshotIndex, source: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, tuple[Position, str]]:
    """Return what to commit of what the source has committed, and why."""
    committed, why = facts.commits_of(source), f"committed offset of {shown_name(source)}"
    return {
        partition: (position_of(committed[partition], facts.snapshot), why)
        for partition in partitions
        if partition in committed
    }


def why_no_source(facts: SnapshotIndex, group_id: str) -> Iterator[Finding]:
    """Yield why the committed offsets of the source group are unknown."""
    group = facts.groups.get(group_id)
    if unlisted := tuple(facts.unlisted(group_id)):
        yield from unlisted
    elif group is None:
        yield block("no-such-group", "no group has this name", group_id)
    elif group.type is GroupType.SHARE:
        yield block("share-group", NO_OFFSETS, group_id)
    elif not is_plannable(facts, group):
        yield from facts.unreadable(group_id)


def about_source(
    facts: SnapshotIndex, group_id: str, partitions: Iterable[TopicPartition]
) -> Iterator[Finding]:
    """Yield findings about the source: it is live, or an offset is not to be taken over."""
    group, committed = facts.groups[group_id], facts.commits_of(group_id)
    if group.is_live:
        at = facts.snapshot.taken_at
        why = f"group is {group.state}; its offsets as of {at:%H:%M:%S} UTC are copied"
        yield note("source-live", why, group_id)
    for partition in partitions:
        commit = committed.get(partition)
        if doubt := commit and doubt_of(commit, facts.snapshot.topic_ids):
            yield block(doubt.rule, doubt.why, group_id, partition)


def without_offset(
    facts: SnapshotIndex, group_id: str, saved: Collection[TopicPartition] = ()
) -> set[TopicPartition]:
    """Return the partitions of the group's topics without a committed offset, or a saved one."""
    known = {*saved, *facts.commits_of(group_id), *facts.unread_of(group_id)}
    topics, numbers = {partition.topic for partition in known}, facts.partitions
    return {TopicPartition(topic, n) for topic in topics for n in numbers.get(topic, ())} - known


def _lacking(
    facts: SnapshotIndex, group_id: str, named: Collection[TopicPartition] | None
) -> set[TopicPartition]:
    """Return which partitions have nothing to copy: of all topics of a group, or of some."""
    if named is None:
        return without_offset(facts, group_id)
    return set(named) - facts.commits_of(group_id).keys()


def uncommitted(
    group_id: str, target: str, partitions: Iterable[TopicPartition]
) -> Iterator[Finding]:
    """Yield, by topic, that a consumer of the target has no committed offset to start from."""
    for scope in scopes_of(partitions):
        why = (
            f"no committed offset for {scope}: none is committed, and a consumer of "
            f"{shown_name(target)} starts according to auto.offset.reset; with `latest` it skips "
            "what was produced before"
        )
        yield Finding("no-commit", Severity.NOTE, why, group_id, scope.topic)


def is_new(facts: SnapshotIndex, group_id: str) -> Iterator[Finding]:
    """Yield a note if the group will be created."""
    if group_id not in facts.groups:
        why = "group does not exist; it will be created as a group without members"
        yield note("new-group", why, group_id)


def _check_names(source: str, target: str) -> None:
    if source == target:
        raise UsageError(
            f"source and target are both group {source!r}", hint="use another target group"
        )
    if not target:
        raise UsageError("the name of the target group is empty")


@dataclass(frozen=True, slots=True)
class MirrorPair:
    """Source group, target group, and the prefix of topic names on the mirror."""

    source: str
    target: str
    prefix: str = ""  # MirrorMaker's default is the alias of the source and a dot

    def mirrored(self, partition: TopicPartition) -> TopicPartition:
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
    here, there = SnapshotIndex(source), SnapshotIndex(mirror)
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
    here: SnapshotIndex,
    there: SnapshotIndex,
    *,
    pair: MirrorPair,
    by: ByOffset | ByTime,
    scopes: Sequence[TopicScope],
) -> Iterator[Part]:
    refusals = tuple(why_no_source(here, pair.source))
    yield from refusals
    if refusals:
        return
    chosen = choose_partitions(here, pair.source, scopes)
    yield from chosen.findings
    yield from about_source(here, pair.source, chosen.partitions)
    lacking = _lacking(here, pair.source, chosen.partitions if scopes else None)
    theirs = there.commits_of(pair.target)
    lacking = {partition for partition in lacking if pair.mirrored(partition) not in theirs}
    yield from uncommitted(pair.source, pair.target, lacking)
    committed = here.commits_of(pair.source)
    mirrored = {pair.mirrored(p): p for p in chosen.partitions if p in committed}
    if not mirrored:
        return
    yield from is_new(there, pair.target)
    found = choose_partitions(
        there, pair.target, scopes_of(mirrored), new_topics=True, named_by_operator=False
    )
    yield from found.findings
    here_logs, there_logs = here.snapshot.logs, there.snapshot.logs
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
    facts = SnapshotIndex(source)
    committed = facts.commits_of(group_id)
    chosen = choose_partitions(facts, group_id, parse_topics(topics))
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
        for partition, commit in SnapshotIndex(source).commits_of(pair.source).items()
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
    for offset in _candidates(commit, log):
        if at := times.get((commit.topic_partition, offset)):
            return _Dated(at, is_next=offset >= commit.offset)
    return None
