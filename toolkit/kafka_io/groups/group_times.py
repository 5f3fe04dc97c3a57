"""Read when groups became Empty and when they committed, as inputs for offset expiry."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from weakref import WeakKeyDictionary

from toolkit.errors import ToolkitError
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.timestamps import LAST_MS, from_ms
from toolkit.kafka_io.offsets_topic.commit_records import commit_time, decode_commit_key
from toolkit.kafka_io.offsets_topic.group_records import decode_classic_group
from toolkit.kafka_io.offsets_topic.newest_records import (
    GroupMetadataRecord,
    NewestRecords,
    id_bytes,
    read_to_ends,
)
from toolkit.kafka_io.offsets_topic.partitions import (
    CLASSIC_GROUP,
    CONSUMER_MEMBER,
    OFFSETS_TOPIC,
    SHARE_MEMBER,
    STREAMS_MEMBER,
    TYPE_OF_GROUP,
    OffsetsTopic,
    partition_of,
    read_offsets_topic,
)
from toolkit.kafka_io.wire.fields import MalformedMessage, string
from toolkit.model import (
    Cluster,
    Commit,
    Group,
    GroupState,
    LogOffsets,
    Problem,
    TopicPartition,
    Unread,
)
from toolkit.model.commit_columns import CommitColumns, columns_of
from toolkit.model.plurals import counted

MEMBERS = frozenset({CONSUMER_MEMBER, SHARE_MEMBER, STREAMS_MEMBER})
KEY_TYPE = b"\0\1"
NUMBER = struct.Struct(">i")


@dataclass(slots=True)
class GroupTimes:
    """
    What the offsets topic says of the times of some groups.

    `empty_since` holds only while the group's coordinator calls it Empty. `hidden` is what an open
    transaction is about to commit. `commits`: of each group, by what their keys have after its id.
    """

    empty_since: dict[str, datetime] = field(default_factory=dict)
    hidden: dict[str, set[TopicPartition]] = field(default_factory=lambda: defaultdict(set))
    commits: dict[str, Mapping[bytes, bytes]] = field(default_factory=dict)

    def partitions(self, group_id: str) -> set[TopicPartition]:
        """Return the partitions that a group has committed."""
        start = KEY_TYPE + string(group_id)
        found = set()
        for key in self.commits.get(group_id, ()):
            with suppress(MalformedMessage):  # which no client of now can have committed
                _, topic, number = decode_commit_key(start + key)
                found.add(TopicPartition(topic, number))
        return found


# What was read over a connection, by partition and how many there were: the next read continues.
_READ: WeakKeyDictionary[Connection, dict[tuple[int, int], NewestRecords]] = WeakKeyDictionary()


def read_group_times(
    connection: Connection, group_ids: Iterable[str]
) -> tuple[GroupTimes, list[Problem]]:
    """
    Return the times of groups, as far as the offsets topic may be read, and the problems.

    Only the partitions that hold these groups are read, and only what was written since the last
    read over this connection. Behind an open transaction, what counts is read as well; where that
    fails, it is unknown when its groups became Empty.
    """
    times = GroupTimes()
    groups: dict[int, list[str]] = defaultdict(list)
    try:
        topic = read_offsets_topic(connection)
        for name in dict.fromkeys(group_ids):
            groups[partition_of(name, topic.partitions or 1)].append(name)
        known, failed = _newest(connection, topic, groups)
    except ToolkitError as exc:
        return times, [Problem(Unread.COMMIT_TIMES, str(exc))]
    failed |= {number: exc for number, exc in topic.unread.items() if number in groups}
    problems = [
        Problem(Unread.COMMIT_TIMES, str(exc), None, OFFSETS_TOPIC, number)
        for number, exc in failed.items()
    ]
    for number in groups.keys() - known.keys() - failed.keys():  # nothing is in such a partition
        times.commits |= {name: {} for name in groups[number]}
    for number, records in known.items():
        if number in failed:
            continue
        why = _add_tail(connection.cluster, number, topic.logs[number], records, times)
        if why:
            problems.append(Problem(Unread.GROUP_CLOCKS, why, None, OFFSETS_TOPIC, number))
        for name in groups[number]:
            times.commits[name] = records.commits[id_bytes(name)]
            own = records.own.get(id_bytes(name))
            if own and not why and (since := _empty_since(own)):
                times.empty_since[name] = since
    return times, problems


def _newest(
    connection: Connection, topic: OffsetsTopic, groups: Mapping[int, Collection[str]]
) -> tuple[dict[int, NewestRecords], dict[int, ToolkitError]]:
    """Return the records in the partitions of these groups, and which could not be read."""
    # Another thread that reads over the same connection meanwhile starts from the beginning.
    earlier = _READ.pop(connection, {})
    known, ends = {}, {}
    for number, log in topic.logs.items():
        if number in groups:
            end = log.stable_end
            stored, start = earlier.get((number, topic.partitions)), log.log_start or 0
            goes_on = stored and start <= stored.next_offset <= end and stored.knows(groups[number])
            known[number] = (
                stored if stored and goes_on else NewestRecords.of(groups[number], start)
            )
            ends[number] = end
    failed = read_to_ends(connection, known, ends)
    read = {(n, topic.partitions): one for n, one in known.items() if n not in failed}
    _READ[connection] = earlier | read
    return known, failed


def _add_tail(
    cluster: Cluster, number: int, log: LogOffsets, records: NewestRecords, times: GroupTimes
) -> str:
    """Add what counts behind the last stable offset; return why that failed, "" if it did not."""
    hidden = (log.log_end or 0) - log.stable_end
    if hidden <= 0:
        return ""
    # Needed only while a transaction is open.
    from toolkit.kafka_io.offsets_topic.unstable_tail import read_unstable_tail  # noqa: PLC0415

    try:
        tail = read_unstable_tail(cluster, number, log)
    except ToolkitError as exc:
        return f"an open transaction hides its last {counted(hidden, 'record')} ({exc})"
    found = tail.records
    columns = found.keys.to_pylist(), found.values.to_pylist(), found.offsets, found.written_ms
    for key, value, offset, written_ms in zip(*columns, strict=True):
        records.add(key, value, int(offset), int(written_ms))
    for pending in tail.pending:
        if id_bytes(pending.group_id) in records.commits:
            times.hidden[pending.group_id].add(TopicPartition(pending.topic, pending.partition))
    return ""


def _empty_since(own: Mapping[bytes, GroupMetadataRecord]) -> datetime | None:
    """Return since when a group has no members, by its own records; None: it has, or not known."""
    kinds = {key: int.from_bytes(key[:2], "big") for key in own}
    live = [key for key, record in own.items() if record.value is not None]
    newest = max(live, key=lambda key: own[key].offset, default=b"")
    if kinds.get(newest) not in TYPE_OF_GROUP:
        return None
    if kinds[newest] != CLASSIC_GROUP:
        is_empty = MEMBERS.isdisjoint(kinds[key] for key in live)
        return from_ms(max(record.written_ms for record in own.values())) if is_empty else None
    try:
        return from_ms(decode_classic_group(own[newest].value or b"").empty_since_ms)
    except MalformedMessage:
        return None


def with_commit_times(commits: Sequence[Commit], times: GroupTimes) -> CommitColumns:
    """Add to each commit when it was made; one that has moved on since keeps None."""
    timed = columns_of(commits)
    for (_, _, places), values in _values(timed, times):
        for place, value in zip(places, values, strict=True):
            if value and (found := commit_time(value)) and found.offset == timed.offsets[place]:
                if 0 <= found.time_ms <= LAST_MS:
                    timed.set_time_us(place, found.time_ms * 1000)
                if found.topic_id:
                    timed.set_topic_id(place, found.topic_id)
                if at := from_ms(found.expires_ms if found.expires_ms is not None else -1):
                    timed.expires[place] = at
    return timed


def _values(
    commits: CommitColumns, times: GroupTimes
) -> Iterator[tuple[tuple[str, str, range], list[bytes | None]]]:
    """Yield each block of commits, and the value that the topic has for each of them."""
    for block in commits.blocks:
        if known := times.commits.get(block.group_id):
            topic = string(block.topic)
            numbers = commits.partitions[block.places.start : block.places.stop]
            yield block, [known.get(topic + NUMBER.pack(number)) for number in numbers]


def commits_in_doubt(
    times: GroupTimes, commits: Sequence[Commit]
) -> dict[str, set[TopicPartition]]:
    """
    Return by group where the offsets topic has or hides a commit, and none is known.

    A coordinator leaves out the offsets of topics that this user may not describe.
    """
    columns = columns_of(commits)
    found: dict[str, int] = defaultdict(int)
    for (group_id, _, _), values in _values(columns, times):
        found[group_id] += len(values) - values.count(None)
    there = {name for name, read in times.commits.items() if found[name] < len(read)}
    doubt = {n: times.hidden[n] | times.partitions(n) for n in {*there, *times.hidden}}
    for group_id, topic, places in columns.blocks:
        if group_id in doubt:
            doubt[group_id] -= {TopicPartition(topic, columns.partitions[n]) for n in places}
    return {name: partitions for name, partitions in doubt.items() if partitions}


def with_empty_since(groups: Iterable[Group], times: GroupTimes) -> list[Group]:
    """Add to each group that its coordinator calls Empty since when it is."""
    return [
        replace(group, empty_since=times.empty_since[group.group_id])
        if group.state is GroupState.EMPTY and group.group_id in times.empty_since
        else group
        for group in groups
    ]
