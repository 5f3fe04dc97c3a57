"""LATEST as tables: committed offsets, and the groups that have records of their own."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from toolkit.kafka_io.groups.subscriptions import from_classic_metadata
from toolkit.kafka_io.logs.byte_columns import column
from toolkit.kafka_io.offsets_topic.decode_commits import (
    commit_keys,
    commit_values,
    scan_commit_values,
)
from toolkit.kafka_io.offsets_topic.group_records import (
    Topology,
    decode_classic_group,
    decode_consumer_member,
    decode_current_assignment,
    decode_epoch,
    decode_group_key,
    decode_resolved_pattern,
    decode_share_group,
    decode_share_member,
    decode_streams_group,
    decode_topology,
)
from toolkit.kafka_io.offsets_topic.latest_records import TIME, greatest, record_types, times
from toolkit.kafka_io.offsets_topic.partitions import (
    CLASSIC_GROUP,
    CONSUMER_CURRENT,
    CONSUMER_GROUP,
    CONSUMER_MEMBER,
    CONSUMER_PATTERN,
    CONSUMER_TARGET,
    LEGACY_COMMIT,
    OFFSET_COMMIT_TYPES,
    SHARE_GROUP,
    SHARE_MEMBER,
    STREAMS_CURRENT,
    STREAMS_GROUP,
    STREAMS_MEMBER,
    STREAMS_TARGET,
    STREAMS_TOPOLOGY,
    TYPE_OF_GROUP,
)
from toolkit.kafka_io.wire.fields import MalformedMessage
from toolkit.model import HOLDER_CLIENT_ID, GroupState

COMMITS = pa.schema(
    [
        ("group", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int64()),
        ("committed", pa.int64()),  # the next record to read
        ("leader_epoch", pa.int64()),
        ("metadata", pa.string()),
        ("committed_at", TIME),  # null: a time that no calendar has
        ("expire_at", TIME),  # only if an old client set a retention
        ("topic_id", pa.string()),  # as Kafka's tools write it
        ("record_offset", pa.int64()),
        ("recent_at", pa.list_(TIME)),
        ("recent_offset", pa.list_(pa.int64())),
        ("max_committed", pa.int64()),
        ("max_committed_at", TIME),
    ]
)
CARRIED = ("record_offset", "recent_at", "recent_offset", "max_committed", "max_committed_at")

HOLDER = HOLDER_CLIENT_ID.encode()  # a record may have it elsewhere, too: then nothing is found
GROUPS = pa.schema(
    [
        ("group", pa.string()),
        ("type", pa.string()),  # classic, consumer, streams, share
        ("protocol_type", pa.string()),  # null in a classic group: it never had a member
        ("state", pa.string()),  # as far as the log has it: not the rebalances of classic groups
        ("members", pa.int64()),
        ("epoch", pa.int64()),  # the generation of a classic group
        ("empty_since", TIME),
        ("changed_at", TIME),  # when the newest of its records was written
        ("subscribed", pa.list_(pa.string())),  # of all members; sorted
        ("unreadable", pa.string()),  # why the subscription is not fully known, "" where it is
        ("is_held", pa.bool_()),  # offsetbook has a member in it: its coordinator has the rest
    ]
)
Decoder = Callable[[bytes], Any]
ONE_A_GROUP: dict[int, Decoder] = {
    CLASSIC_GROUP: decode_classic_group,
    CONSUMER_GROUP: decode_epoch,
    CONSUMER_TARGET: decode_epoch,
    SHARE_GROUP: decode_share_group,
    STREAMS_GROUP: decode_streams_group,
    STREAMS_TARGET: decode_epoch,
    STREAMS_TOPOLOGY: decode_topology,
}
MANY_A_GROUP: dict[int, Decoder] = {
    CONSUMER_MEMBER: decode_consumer_member,
    CONSUMER_CURRENT: decode_current_assignment,
    CONSUMER_PATTERN: decode_resolved_pattern,
    SHARE_MEMBER: decode_share_member,
    STREAMS_MEMBER: bytes,  # that there is one is enough
    STREAMS_CURRENT: decode_current_assignment,
}
DECODERS = ONE_A_GROUP | MANY_A_GROUP
TELL_MEMBERS = frozenset({CLASSIC_GROUP, CONSUMER_MEMBER, STREAMS_MEMBER})  # with client ids
DAMAGED = "a record of the group could not be read"


def decode_commits(latest: pa.Table) -> tuple[pa.Table, Counter[str]]:
    """
    Return the offsets that LATEST holds, columns `COMMITS`, and how many are malformed by why.

    Tombstones and records of other types are passed over; keys too short for a type are malformed.
    """
    kinds = record_types(latest)
    rows = np.isin(kinds, [*OFFSET_COMMIT_TYPES])
    if np.any(kinds == LEGACY_COMMIT):
        rows &= ~_superseded(latest, rows)
    rows &= latest["value"].is_valid().to_numpy()
    commits = latest.filter(pa.array(rows))
    keys = commit_keys(commits["key"])
    scan = scan_commit_values(
        commits["value"], np.ones(len(commits), bool), kinds[rows] == LEGACY_COMMIT
    )
    values = commit_values(scan)
    columns = {
        "group": keys.groups,
        "topic": keys.topics,
        "partition": pa.array(keys.partitions),
        "committed": pa.array(scan.offsets),
        "leader_epoch": pa.array(values.epochs, mask=values.epochs == -1),
        "metadata": values.metadata,
        "committed_at": times(scan.times_ms),
        "expire_at": times(values.expires_ms),
        "topic_id": values.topic_ids,
        **{name: commits[name] for name in CARRIED},
    }
    table = pa.table([columns[name] for name in COMMITS.names], schema=COMMITS)
    short = Counter({"key too short": int((column(latest["key"]).lengths < 2).sum())})
    malformed = keys.malformed + scan.malformed + short
    return table.filter(pa.array(keys.decoded & scan.decoded)), malformed


def _superseded(latest: pa.Table, commits: Any) -> Any:
    """Return which records are older than one of the same offset under the other type of key."""
    # Without its first two bytes a key says the same in both types.
    keys = column(latest["key"])
    rest = keys.parts(keys.starts + 2, keys.ends, commits)
    codes = rest.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    offsets = latest["record_offset"].to_numpy()
    newest = greatest(codes[commits], offsets[commits], codes.max() + 1, at_least=-1)
    return commits & (offsets < newest[codes])


class _GroupDescription(NamedTuple):
    """The facts in the records of one type of group."""

    members: int
    state: GroupState
    epoch: int | None = None
    protocol_type: str | None = None
    empty_ms: int | None = None  # None: since the newest of the group's records, if it is Empty
    subscribed: Iterable[str] = ()
    unreadable: str = ""


@dataclass(slots=True)
class _GroupRecords:
    """The live records of one group."""

    one: dict[int, Any] = field(default_factory=dict)  # by type
    many: dict[int, dict[str, Any]] = field(default_factory=lambda: defaultdict(dict))
    changed_ms: int = -1
    newest: tuple[int, int] = (-1, -1)  # record offset and type of the newest live record
    damaged: bool = False
    is_held: bool = False

    def add(self, kind: int, member: str | None, value: bytes) -> None:
        """Add a live record; raises MalformedMessage where it cannot be read."""
        if kind not in DECODERS:
            return
        found = DECODERS[kind](value)
        self.is_held |= kind in TELL_MEMBERS and HOLDER in value
        if kind in ONE_A_GROUP:
            self.one[kind] = found
        else:
            self.many[kind][member or ""] = found


def decode_groups(latest: pa.Table) -> tuple[pa.Table, Counter[str]]:
    """
    Return the groups that have a live record of their own, and how many records are malformed.

    Columns `GROUPS`. `latest` must hold all records of a group: an offsets partition, not half of
    one. Type and state follow the brokers' rules (ClassicGroup, ConsumerGroup,
    StreamsGroup and ShareGroup of Kafka 4.3), as far as what is stored goes.
    """
    kinds = record_types(latest)
    is_of_group = np.isin(kinds, [*TYPE_OF_GROUP])
    rows = latest.filter(pa.array(is_of_group))
    groups: dict[str, _GroupRecords] = defaultdict(_GroupRecords)
    malformed: Counter[str] = Counter()
    columns = (
        kinds[is_of_group].tolist(),
        rows["key"].to_pylist(),
        rows["value"].to_pylist(),
        rows["record_offset"].to_pylist(),
        rows["written_at"].cast(pa.int64()).fill_null(-1).to_pylist(),
    )
    for kind, key, value, offset, written_ms in zip(*columns, strict=True):
        try:
            name, member = decode_group_key(key)
        except MalformedMessage as exc:
            malformed[str(exc)] += 1
            continue
        group = groups[name]
        group.changed_ms = max(group.changed_ms, written_ms)
        if value is None:
            continue
        group.newest = max(group.newest, (offset, kind))
        try:
            group.add(kind, member, value)
        except MalformedMessage as exc:
            group.damaged = True
            malformed[str(exc)] += 1
    return _table(
        {name: group for name, group in groups.items() if group.newest[0] >= 0}
    ), malformed


def _table(groups: Mapping[str, _GroupRecords]) -> pa.Table:
    types = [TYPE_OF_GROUP[group.newest[1]] for group in groups.values()]
    facts = [FACTS_OF[type_](group) for type_, group in zip(types, groups.values(), strict=True)]
    changed = [group.changed_ms for group in groups.values()]
    empty = [
        -1 if fact.members else at if fact.empty_ms is None else fact.empty_ms
        for fact, at in zip(facts, changed, strict=True)
    ]
    damaged = [group.damaged for group in groups.values()]
    columns = [
        pa.array([*groups], pa.string()),
        pa.array(types, pa.string()),
        pa.array([fact.protocol_type for fact in facts], pa.string()),
        pa.array([str(fact.state) for fact in facts], pa.string()),
        pa.array([fact.members for fact in facts], pa.int64()),
        pa.array([fact.epoch for fact in facts], pa.int64()),
        times(np.array(empty, np.int64)),
        times(np.array(changed, np.int64)),
        pa.array([sorted(set(fact.subscribed)) for fact in facts], pa.list_(pa.string())),
        pa.array([DAMAGED if d else f.unreadable for d, f in zip(damaged, facts, strict=True)]),
        pa.array([group.is_held for group in groups.values()]),
    ]
    return pa.Table.from_arrays(columns, schema=GROUPS)


def _classic(group: _GroupRecords) -> _GroupDescription:
    found = group.one.get(CLASSIC_GROUP)
    if found is None:
        return _GroupDescription(0, GroupState.UNKNOWN, empty_ms=-1)
    read = []
    if found.protocol_type == "consumer":
        read = [from_classic_metadata(one) for one in found.subscriptions]
    return _GroupDescription(
        len(found.subscriptions),
        GroupState.STABLE if found.subscriptions else GroupState.EMPTY,
        found.generation,
        found.protocol_type or None,
        found.empty_since_ms,
        {topic for one in read for topic in one.topics},
        next((one.unreadable for one in read if one.unreadable), ""),
    )


def _consumer(group: _GroupRecords) -> _GroupDescription:
    members = group.many[CONSUMER_MEMBER]
    epoch, target = group.one.get(CONSUMER_GROUP, 0), group.one.get(CONSUMER_TARGET, 0)
    resolved = group.many[CONSUMER_PATTERN]
    patterns = {member.pattern for member in members.values() if member.pattern}
    unresolved = sorted(patterns - resolved.keys())
    return _GroupDescription(
        len(members),
        _state(members, group.many[CONSUMER_CURRENT], epoch, target),
        epoch,
        "consumer",
        subscribed=chain(
            *(member.topics for member in members.values()),
            *(resolved[pattern] for pattern in patterns & resolved.keys()),
        ),
        unreadable=f"pattern {unresolved[0]!r} is not resolved yet" if unresolved else "",
    )


def _streams(group: _GroupRecords) -> _GroupDescription:
    members = group.many[STREAMS_MEMBER]
    epoch, validated = group.one.get(STREAMS_GROUP, (0, -1))
    topology: Topology | None = group.one.get(STREAMS_TOPOLOGY)
    state = _state(members, group.many[STREAMS_CURRENT], epoch, group.one.get(STREAMS_TARGET, 0))
    unreadable = ""
    if members and topology is None:
        state, unreadable = GroupState.NOT_READY, "the topology is not known yet"
    elif members and topology and topology.epoch != validated:
        state = GroupState.NOT_READY
    if members and topology and topology.patterns:
        unreadable = "the topology has a pattern of source topics"
    topics = topology.topics if members and topology else ()
    return _GroupDescription(
        len(members), state, epoch, "streams", subscribed=topics, unreadable=unreadable
    )


def _share(group: _GroupRecords) -> _GroupDescription:
    members = group.many[SHARE_MEMBER]
    return _GroupDescription(
        len(members),
        GroupState.STABLE if members else GroupState.EMPTY,
        group.one.get(SHARE_GROUP),
        "share",
        subscribed=chain(*members.values()),
    )


def _state(
    members: Mapping[str, Any], current: Mapping[str, Any], epoch: int, target: int
) -> GroupState:
    """Return the state of a KIP-848 or streams group, as its coordinator derives it."""
    if not members:
        return GroupState.EMPTY
    if epoch > target:
        return GroupState.ASSIGNING
    there = (current.get(member_id) for member_id in members)
    if all(member and member.is_reconciled_to(target) for member in there):
        return GroupState.STABLE
    return GroupState.RECONCILING


FACTS_OF: dict[str, Callable[[_GroupRecords], _GroupDescription]] = {
    "classic": _classic,
    "consumer": _consumer,
    "share": _share,
    "streams": _streams,
}
