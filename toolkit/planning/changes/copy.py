"""
Plan a copy of committed offsets to another group of the same cluster, or a rename.

The other group is new or empty. Offsets, leader epochs and metadata are copied unchanged. A rename
copies everything to a new group and then deletes the old one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from toolkit.errors import UsageError
from toolkit.model import GroupType, Snapshot, TopicPartition
from toolkit.model.names import shown_name
from toolkit.plan import (
    NEW_GROUP,
    Action,
    Change,
    Finding,
    Intent,
    Plan,
    Position,
    Severity,
    Step,
)
from toolkit.planning.selection.group_selection import NO_OFFSETS, is_plannable, why_not_idle
from toolkit.planning.selection.partition_selection import choose_partitions, parse_topics, ranges
from toolkit.planning.selection.plan_parts import (
    Facts,
    Part,
    block,
    commit_step,
    note,
    pending,
    plan_of,
)


def plan_copy(snapshot: Snapshot, *, source: str, target: str, topics: Sequence[str] = ()) -> Plan:
    """
    Plan to commit the current offsets of `source` for `target`, a new or empty group.

    `topics` are scopes (`TOPIC` or `TOPIC:0,1`); none means all. Other offsets of the target stay.
    Raises UsageError if a scope cannot be parsed, or a group is copied to itself.
    """
    scopes = parse_topics(topics)
    _check_names(source, target)
    facts = Facts.of(snapshot)

    def parts() -> Iterator[Part]:
        refusals = tuple(why_no_source(facts, source))
        yield from refusals
        if refusals:
            return
        chosen = choose_partitions(facts.index, source, scopes)
        yield from chosen.findings
        yield from about_source(facts, source, chosen.partitions)
        if not scopes:
            yield from uncommitted(facts, source, target)
        yield from is_new(facts, target)
        committed = facts.commits(source)
        why = f"committed offset of {shown_name(source)}"
        positions = {
            p: (Position.of(committed[p]), why) for p in chosen.partitions if p in committed
        }
        yield from commit_step(facts, target, positions)

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
    facts = Facts.of(snapshot)
    allows = frozenset({NEW_GROUP})
    request = f"rename {shown_name(source)} to {shown_name(target)}"
    parts = _renamed(facts, source, target)
    return plan_of(snapshot, parts, intent=Intent.RENAME, request=request, allows=allows)


def _renamed(facts: Facts, source: str, target: str) -> Iterator[Part]:
    refusals = [*why_no_source(facts, source)]
    if group := facts.groups.get(source):
        refusals += why_not_idle(facts.index, group)
    # Offsets of the old group that could not be read would be lost with it.
    refusals += facts.unreadable(source)
    if target in facts.groups:
        refusals.append(block("group-exists", "a group with this name already exists", target))
    yield from dict.fromkeys(refusals)
    committed = facts.commits(source)
    if not committed and not refusals:
        yield note("no-commit", "no committed offsets to copy", source)
    if not committed or refusals:
        return
    why = f"committed offset of {shown_name(source)}"
    positions = {p: (Position.of(commit), why) for p, commit in committed.items()}
    made = tuple(commit_step(facts, target, positions))
    yield from about_source(facts, source, committed)
    yield from uncommitted(facts, source, target)
    yield from made
    if any(isinstance(part, Step) for part in made):
        why = f"kept as {shown_name(target)}"
        gone = [Change(p, Position.of(c), None, why) for p, c in committed.items()]
        yield facts.step(source, Action.DELETE_GROUP, gone, needs=target)


def why_no_source(facts: Facts, group_id: str) -> Iterator[Finding]:
    """Yield why the committed offsets of the source group are unknown."""
    group = facts.groups.get(group_id)
    if unlisted := tuple(facts.unlisted(group_id)):
        yield from unlisted
    elif group is None:
        yield block("no-such-group", "no group has this name", group_id)
    elif group.type is GroupType.SHARE:
        yield block("share-group", NO_OFFSETS, group_id)
    elif not is_plannable(facts.index, group):
        yield from facts.unreadable(group_id)


def about_source(
    facts: Facts, group_id: str, partitions: Iterable[TopicPartition]
) -> Iterator[Finding]:
    """Yield findings about the source: it is live, or a transaction is pending."""
    group, committed = facts.groups[group_id], facts.commits(group_id)
    if group.is_live:
        at = facts.index.snapshot.taken_at
        why = f"group is {group.state}; its offsets as of {at:%H:%M:%S} UTC are copied"
        yield note("source-live", why, group_id)
    for partition in partitions:
        if partition in committed and committed[partition].pending:
            yield pending(group_id, partition)


def uncommitted(facts: Facts, group_id: str, target: str) -> Iterator[Finding]:
    """Yield which partitions of the group's topics have no committed offset that is copied."""
    known = {*facts.commits(group_id), *facts.index.unread.get(group_id, {})}
    for topic in sorted({partition.topic for partition in known}):
        numbers = facts.index.partitions.get(topic, frozenset())
        others = {number for number in numbers if TopicPartition(topic, number) not in known}
        if others:
            why = (
                f"no committed offset for {topic}:{ranges(others)}: nothing is copied, and a "
                f"consumer of {shown_name(target)} starts according to auto.offset.reset; with "
                "`latest` it skips what was produced before"
            )
            yield Finding("no-commit", Severity.NOTE, why, group_id, topic)


def is_new(facts: Facts, group_id: str) -> Iterator[Finding]:
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
