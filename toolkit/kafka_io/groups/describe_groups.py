"""Describe live groups, each type by the call that understands it, and leave out ended ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.coordinators import GroupEnded, ask_coordinators
from toolkit.kafka_io.groups.hold_notes import read_note
from toolkit.kafka_io.groups.listing import group_state, list_groups
from toolkit.kafka_io.groups.subscriptions import (
    ExistingTopics,
    LookUpTopics,
    assignment_from_bytes,
    from_classic_metadata,
    from_names,
    read_by,
    source_topics,
    user_data_from_bytes,
)
from toolkit.kafka_io.logs.log_offsets import existing_topics
from toolkit.kafka_io.membership.classic import CONSUMER, ClassicFacts, DescribedClassicMember
from toolkit.kafka_io.membership.consumer import DescribedConsumerMember, assigned_partitions
from toolkit.kafka_io.wire.messages import (
    ConsumerGroupDescribeRequest,
    ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
)
from toolkit.model import (
    HOLDER_CLIENT_ID,
    Commit,
    Group,
    GroupState,
    GroupType,
    Member,
    Problem,
    Subscription,
    TopicPartition,
    Unread,
)
from toolkit.model.commit_columns import CommitColumns

Describe = Callable[[Group, Any, LookUpTopics], Group]
Paused = Mapping[TopicPartition, Member]  # held partitions, and the offsetbook member of each


def describe_groups(
    connection: Connection, listed: Iterable[Group], *, topics: LookUpTopics = ExistingTopics
) -> Iterator[Group | Problem]:
    """
    Yield every listed group with its members, and a problem for each that could not be described.

    A group that its coordinator does not know any more is Dead and not described: it ended, or is
    of another type by now. One that is Empty in the listing has no members to ask about and is
    passed on as described. `topics` is called only to resolve a broker-side pattern or tasks of
    several topics; without it they match nothing.
    """
    by_call: dict[GroupType, dict[str, Group]] = {}
    for group in listed:
        if not group.is_live:
            yield group
        elif group.type in CALLS:
            by_call.setdefault(group.type, {})[group.group_id] = group
        else:
            yield group
            yield Problem(
                Unread.MEMBERS,
                f"group type {group.type} is not supported by this version",
                group.group_id,
            )
    for type_, groups in by_call.items():
        yield from _describe(connection, groups, type_, topics)


def without_ended(
    connection: Connection, described: Sequence[Group]
) -> tuple[list[Group], frozenset[str]]:
    """
    Return the groups without those that ended since they were listed, and the names of these.

    A group that now has another type is unknown as one of the old type, and is described again.
    Where not all groups can be listed now, it is not known whether one has ended: it stays, without
    a state.
    """
    ended = {group.group_id for group in described if group.state is GroupState.DEAD}
    if not ended:
        return [*described], frozenset()
    listed, unlisted = list_groups(connection)
    there = [group for group in listed if group.group_id in ended]
    again = [
        found
        for found in describe_groups(connection, there, topics=lambda: existing_topics(connection))
        if isinstance(found, Group) and found.state is not GroupState.DEAD
    ]
    remaining = [group for group in described if group.group_id not in ended]
    ended -= {group.group_id for group in again}
    if unlisted:
        unknown = (group for group in described if group.group_id in ended)
        again += [replace(one, state=GroupState.UNKNOWN, described=False) for one in unknown]
        ended.clear()
    return [*remaining, *again], frozenset(ended)


def commits_without(commits: Sequence[Commit], groups: Collection[str]) -> CommitColumns:
    """Return commits without those of some groups."""
    return CommitColumns(commit for commit in commits if commit.group_id not in groups)


def read_paused(connection: Connection, group: Group) -> Paused | Problem:
    """Return the held partitions of a group, or why they cannot be read now."""
    found = list(describe_groups(connection, [group]))
    problems = [one for one in found if isinstance(one, Problem)]
    groups = [one for one in found if isinstance(one, Group)]
    if not problems and not groups[0].described:  # or it is of another type by now
        return Problem(Unread.MEMBERS, "the group has ended", group.group_id)
    return problems[0] if problems else groups[0].paused


def _describe(
    connection: Connection, groups: dict[str, Group], type_: GroupType, topics: LookUpTopics
) -> Iterator[Group | Problem]:
    build, described = CALLS[type_]
    for answer in ask_coordinators(connection, groups, what=Unread.MEMBERS, build=build):
        if isinstance(answer, Problem):
            yield groups[answer.group_id or ""]
            yield answer
        elif isinstance(answer, GroupEnded):
            yield replace(groups[answer.group_id], state=GroupState.DEAD, described=False)
        else:
            group = replace(
                groups[answer.entry.group_id], coordinator_id=answer.coordinator_id, described=True
            )
            group = described(group, answer.entry, topics)
            yield group
            if _hides_a_hold(group):
                yield Problem(Unread.HELD_PARTITIONS, "the group is rebalancing", group.group_id)


def _hides_a_hold(group: Group) -> bool:
    """Whether held partitions are hidden: brokers before 4.0 show them only when Stable."""
    hidden = any(member.is_holder and not member.holds for member in group.members)
    return hidden and group.type is GroupType.CLASSIC and group.state is not GroupState.STABLE


def _classic_request(group_ids: Sequence[str]) -> DescribeGroupsRequest:
    return DescribeGroupsRequest(groups=list(group_ids))


def _classic(group: Group, entry: Any, _topics: LookUpTopics) -> Group:
    facts = ClassicFacts.of(entry)
    return replace(
        group,
        state=group_state(facts.state),
        protocol_type=facts.protocol_type or None,
        assignor=facts.protocol or None,
        members=tuple(classic_member(one, facts.protocol_type) for one in facts.members),
    )


def classic_member(described: DescribedClassicMember, protocol_type: str = CONSUMER) -> Member:
    """Return a member of a classic group, with its held partitions if it is offsetbook's."""
    if protocol_type != CONSUMER:
        subscription = Subscription(
            unreadable=f"protocol type is {protocol_type!r}, not 'consumer'"
        )
    elif not described.subscription:
        # The broker hands out join metadata only while the group is Stable.
        subscription = Subscription(unreadable="the group is rebalancing")
    else:
        subscription = from_classic_metadata(described.subscription)
    member = Member(
        member_id=described.member_id,
        client_id=described.client_id,
        host=described.host,
        subscription=subscription,
        assignment=assignment_from_bytes(described.assignment),
        instance_id=described.instance_id,
    )
    if not member.is_holder:
        return member
    # offsetbook's member lists the paused partitions in its own assignment.
    note = read_note(user_data_from_bytes(described.assignment))
    return replace(member, holds=note.paused, hold_note=note.note)


def _by_ids(message: Callable[..., Any]) -> Callable[[Sequence[str]], Any]:
    return lambda group_ids: message(group_ids=list(group_ids))


def _consumer(group: Group, entry: Any, topics: LookUpTopics) -> Group:
    return _modern(group, entry, (_consumer_member(m, topics) for m in entry.members))


def _consumer_member(entry: Any, topics: LookUpTopics) -> Member:
    if entry.client_id == HOLDER_CLIENT_ID:
        return consumer_holder(DescribedConsumerMember.of(entry))
    subscription = from_names(entry.subscribed_topic_names, entry.subscribed_topic_regex, topics)
    assigned = tuple(sorted(assigned_partitions(entry.assignment)))
    return _modern_member(entry, subscription, assignment=assigned, instance_id=entry.instance_id)


def consumer_holder(described: DescribedConsumerMember) -> Member:
    """Return offsetbook's member of a KIP-848 group, with its held partitions."""
    return Member(
        member_id=described.member_id,
        client_id=described.client_id,
        host=described.host,
        subscription=Subscription(described.topics),
        assignment=tuple(sorted(described.assigned)),
        rack_id=described.rack_id,
        epoch=described.epoch,
        holds=tuple(sorted(described.holds)),
        hold_note=read_note(described.rack_id).note,
    )


def _share(group: Group, entry: Any, _topics: LookUpTopics) -> Group:
    members = (
        _modern_member(
            m,
            Subscription(frozenset(m.subscribed_topic_names)),
            assignment=tuple(sorted(assigned_partitions(m.assignment))),
        )
        for m in entry.members
    )
    return _modern(group, entry, members)


def _streams(group: Group, entry: Any, topics: LookUpTopics) -> Group:
    """Read a streams group, whose members all read the source topics of the one topology."""
    sources = source_topics(entry.topology)
    if sources is None:
        subscription = Subscription(unreadable="the streams topology is not initialised")
    else:
        subscription = Subscription(frozenset(chain.from_iterable(sources.values())))
    may_not_exist = any(len(names) > 1 for names in (sources or {}).values())
    counts = topics().partitions if may_not_exist else {}

    def member(described: Any) -> Member:
        found = read_by(described.assignment, sources or {})
        if may_not_exist:
            found = frozenset(one for one in found if one.partition < counts.get(one.topic, 0))
        assigned = tuple(sorted(found))
        return _modern_member(
            described, subscription, assignment=assigned, instance_id=described.instance_id
        )

    members = [member(entry) for entry in entry.members]
    read = {place for one in members if not one.is_holder for place in one.assignment}
    return _modern(group, entry, (_with_note(one, read) for one in members))


def _with_note(member: Member, read: Collection[TopicPartition]) -> Member:
    """Add the note of offsetbook's member; a partition that another member reads is not held."""
    if not member.is_holder:
        return member
    note = read_note(member.rack_id)
    held = tuple(place for place in note.paused if place not in read)
    return replace(member, holds=held, hold_note=note.note)


def _modern(group: Group, entry: Any, members: Iterable[Member]) -> Group:
    return replace(
        group,
        state=group_state(entry.group_state),
        assignor=getattr(entry, "assignor_name", None) or None,
        epoch=entry.group_epoch,
        members=tuple(members),
    )


def _modern_member(
    entry: Any,
    subscription: Subscription,
    *,
    assignment: tuple[TopicPartition, ...] = (),
    instance_id: str | None = None,
) -> Member:
    return Member(
        member_id=entry.member_id,
        client_id=entry.client_id,
        host=entry.client_host,
        subscription=subscription,
        assignment=assignment,
        instance_id=instance_id,
        rack_id=entry.rack_id,
        epoch=entry.member_epoch,
    )


CALLS: dict[GroupType, tuple[Callable[[Sequence[str]], Any], Describe]] = {
    GroupType.CLASSIC: (_classic_request, _classic),
    GroupType.SIMPLE: (_classic_request, _classic),
    GroupType.CONSUMER: (_by_ids(ConsumerGroupDescribeRequest), _consumer),
    GroupType.STREAMS: (_by_ids(StreamsGroupDescribeRequest), _streams),
    GroupType.SHARE: (_by_ids(ShareGroupDescribeRequest), _share),
}
