"""
Delete committed offsets (KIP-496): of a live group those that nobody subscribes to, else any.

A broker refuses a topic that any member subscribes to, and a group that has members of another
protocol than a consumer's; it calls the deletion of a commit that is not there a success. All of
that is said here, before it is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from toolkit.model import Group, GroupType, Snapshot, TopicPartition
from toolkit.plan import Action, Change, Finding, Intent, Plan, Position, Severity
from toolkit.planning.idle import choose_groups
from toolkit.planning.members import name_members
from toolkit.planning.scope import TopicScope, parse_topics
from toolkit.planning.steps import Facts, Part, block, in_words, note, plan_of
from toolkit.planning.unsubscribed import why_left_out

TOPICS_REQUIRED = (
    "without a topic, all offsets of an idle group would be deleted: name topics, or say that all "
    "are meant"
)


def plan_delete_offsets(
    snapshot: Snapshot,
    *,
    groups: Sequence[str],
    topics: Sequence[str] = (),
    all_topics: bool = False,
) -> Plan:
    """
    Plan to delete committed offsets of groups, named or by shell pattern.

    `topics` are scopes as `toolkit.planning.scope` reads them. Without any, a live group loses the
    offsets of all topics that it does not subscribe to, and an idle one, for which that would be
    everything, is refused unless `all_topics`. Raises UsageError where a scope cannot be read.
    """
    scopes = parse_topics(topics)
    facts = Facts.of(snapshot)

    def parts() -> Iterator[Part]:
        chosen, findings = choose_groups(facts.index, groups)
        yield from findings
        for group in chosen:
            if group.type is GroupType.SHARE:
                why = "a share group has no committed offsets (KIP-932)"
                yield block("share-group", why, group.group_id)
            elif scopes or all_topics:
                yield from _named(facts, group, scopes)
            elif group.is_live:
                none = note("no-commit", "nothing that it does not subscribe to", group.group_id)
                yield from tuple(_unsubscribed(facts, group)) or (none,)
            else:
                yield block("topics-required", TOPICS_REQUIRED, group.group_id)

    what = in_words([str(scope) for scope in scopes], "topics") or (
        "all topics" if all_topics else "topics not subscribed to"
    )
    request = f"delete offsets of {in_words(groups)}, {what}"
    return plan_of(snapshot, parts(), intent=Intent.DELETE_OFFSETS, request=request)


def plan_delete_unsubscribed(snapshot: Snapshot, *, groups: Sequence[str] = ("*",)) -> Plan:
    """
    Plan to delete every committed offset of a topic that its live group does not subscribe to.

    Groups of which that cannot be said are passed over, with the reason as a note where they have
    committed anything.
    """
    facts = Facts.of(snapshot)

    def parts() -> Iterator[Part]:
        chosen, findings = choose_groups(facts.index, groups)
        yield from findings
        for group in chosen:
            why = why_left_out(group)
            if not why:
                yield from _unsubscribed(facts, group)
            elif facts.commits(group.group_id):
                yield note("left-out", why, group.group_id)

    request = f"delete offsets of topics not subscribed to, {in_words(groups)}"
    return plan_of(snapshot, parts(), intent=Intent.DELETE_OFFSETS, request=request)


def why_kept(group: Group, topic: str) -> Finding | None:
    """
    Return why a group's offsets of a topic cannot be deleted; None where they can.

    The rules are those of the broker, which answers 86 for a subscribed topic and 68 for a group
    with members that are not consumers.
    """
    if not group.is_live:
        return None
    if why := why_left_out(group):
        if group.type is not GroupType.UNKNOWN and why != group.unreadable_subscription:
            return block("group-live", why, group.group_id)
        return block("unreadable", f"what it subscribes to is not known: {why}", group.group_id)
    readers = [member for member in group.members if topic in member.subscription.topics]
    if not readers:
        return None
    names = name_members(readers)
    return Finding("subscribed", Severity.BLOCK, f"subscribed by {names}", group.group_id, topic)


def _named(facts: Facts, group: Group, scopes: Sequence[TopicScope]) -> Iterator[Part]:
    """Delete what the scopes mean, or everything where there are none."""
    committed = facts.commits(group.group_id)
    meant = [p for p in committed if _is_meant(p, scopes)]
    kept = {topic: why_kept(group, topic) for topic in sorted({p.topic for p in meant})}
    yield from dict.fromkeys(refusal for refusal in kept.values() if refusal)
    for finding in facts.unreadable(group.group_id):
        at = TopicPartition(finding.topic or "", finding.partition or 0)
        if finding.topic is None or _is_meant(at, scopes):
            yield finding
    yield from _not_there(facts, group, scopes)
    yield from _deleted(facts, group, [p for p in meant if not kept[p.topic]], why="")


def _is_meant(partition: TopicPartition, scopes: Sequence[TopicScope]) -> bool:
    return not scopes or any(partition in scope for scope in scopes)


def _unsubscribed(facts: Facts, group: Group) -> Iterator[Part]:
    """Delete what a live group committed of topics that it does not subscribe to."""
    yield from facts.unreadable(group.group_id)
    kept = {p: why_kept(group, p.topic) for p in facts.commits(group.group_id)}
    yield from dict.fromkeys(
        refusal for refusal in kept.values() if refusal and refusal.rule != "subscribed"
    )
    leftover = [partition for partition, refusal in kept.items() if not refusal]
    yield from _deleted(facts, group, leftover, why="no member subscribes to the topic")


def _not_there(facts: Facts, group: Group, scopes: Sequence[TopicScope]) -> Iterator[Part]:
    """Yield what was named and is not committed, for which the real tool says "Successful"."""
    there = {*facts.commits(group.group_id), *facts.index.unread.get(group.group_id, ())}
    if not scopes and not there:
        yield note("no-commit", "it has committed nothing", group.group_id)
    for scope in scopes:
        numbers = {partition.partition for partition in there if partition.topic == scope.topic}
        lacking = set(scope.partitions or ()) - numbers
        if lacking or not numbers:
            what = TopicScope(scope.topic, tuple(sorted(lacking)) or None)
            why = f"nothing is committed for {what}"
            yield Finding("no-commit", Severity.NOTE, why, group.group_id, scope.topic)


def _deleted(
    facts: Facts, group: Group, partitions: Sequence[TopicPartition], *, why: str
) -> Iterator[Part]:
    committed = facts.commits(group.group_id)
    for partition in partitions:
        if committed[partition].pending:
            said = "an open transaction is about to commit here"
            yield block("pending-transaction", said, group.group_id, partition)
    changes = [Change(p, Position.of(committed[p]), None, why) for p in partitions]
    if changes:
        yield facts.step(group.group_id, Action.DELETE_OFFSETS, changes)
