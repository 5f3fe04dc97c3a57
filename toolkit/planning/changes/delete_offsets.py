"""
Plan the deletion of offsets (KIP-496): unsubscribed ones of live groups, any of empty groups.

A broker rejects a topic that a member subscribes to, and a group with members of another protocol
type; it reports success for an offset that does not exist. The plan reports all of this beforehand.

Kafka does not record when a group stopped subscribing: only a series of consecutive observations
shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from toolkit.model import Group, GroupType, Snapshot, TopicPartition
from toolkit.model.groups import Sighting
from toolkit.model.plurals import counted
from toolkit.model.times import format_duration
from toolkit.plan import Action, Change, Finding, Intent, Plan, Position, Severity
from toolkit.planning.selection.findings import block, note
from toolkit.planning.selection.group_selection import NO_OFFSETS, choose_groups
from toolkit.planning.selection.last_use import seen_in
from toolkit.planning.selection.member_names import name_members
from toolkit.planning.selection.partition_selection import TopicScope, parse_topics, why_missing
from toolkit.planning.selection.plan_parts import Part, list_names, plan_of
from toolkit.planning.selection.snapshot_index import SnapshotIndex
from toolkit.planning.unsubscribed.unsubscribed_offsets import uncheckable_reason

TOPICS_REQUIRED = (
    "this would delete all offsets of an empty group. Name the topics, or request all explicitly"
)


def plan_delete_offsets(
    snapshot: Snapshot,
    *,
    groups: Sequence[str],
    topics: Sequence[str] = (),
    all_topics: bool = False,
) -> Plan:
    """
    Plan to delete committed offsets of groups, by name or shell pattern.

    `topics` are scopes (`TOPIC` or `TOPIC:0,1`). Without any, all unsubscribed offsets of a live
    group are deleted; an empty group, which would lose everything, is blocked unless `all_topics`.
    The snapshot must have the logs of the named topics: one that neither exists nor has a commit
    blocks. Raises UsageError if a scope cannot be parsed.
    """
    scopes = parse_topics(topics)
    facts = SnapshotIndex(snapshot)

    def parts() -> Iterator[Part]:
        chosen, findings = choose_groups(facts, groups)
        yield from findings
        for group in chosen:
            if group.type is GroupType.SHARE:
                yield block("share-group", NO_OFFSETS, group.group_id)
            elif scopes or all_topics:
                yield from _named(facts, group, scopes)
            elif group.is_live:
                none = note("no-commit", "no unsubscribed offsets", group.group_id)
                yield from tuple(_unsubscribed(facts, group)) or (none,)
            else:
                yield block("topics-required", TOPICS_REQUIRED, group.group_id)

    what = list_names([str(scope) for scope in scopes], "topics") or (
        "all topics" if all_topics else "topics not subscribed to"
    )
    request = f"delete offsets of {list_names(groups)}, {what}"
    return plan_of(snapshot, parts(), intent=Intent.DELETE_OFFSETS, request=request)


@dataclass(frozen=True, slots=True)
class _MinimumAge:
    """How long, and by how many runs, a topic must have been observed as unsubscribed."""

    length: timedelta | None = None
    runs: int = 0
    sightings: Mapping[tuple[str, str], Sighting] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the condition as text, "" if there is none."""
        length = f"unsubscribed for {format_duration(self.length)}" if self.length else ""
        return ", ".join(
            filter(None, (length, f"in {counted(self.runs, 'run')}" if self.runs > 0 else ""))
        )

    def judge(self, group_id: str, topic: str, now: datetime) -> Finding | str:
        """Return why a topic's offsets are not deleted or, if they may be, what was observed."""
        if not str(self):
            return ""
        sighting = self.sightings.get((group_id, topic))
        if sighting is None:
            why = "no earlier run has observed this topic as unsubscribed"
            return Finding("age-unknown", Severity.NOTE, why, group_id, topic)
        at = f"{sighting.since:%Y-%m-%d %H:%M} UTC"
        seen = f"observed as unsubscribed in {counted(sighting.seen, 'run')} since {at}"
        is_long_enough = self.length is None or now - sighting.since >= self.length
        if is_long_enough and sighting.seen >= self.runs:
            return seen
        return Finding("too-young", Severity.NOTE, f"{seen}; required: {self}", group_id, topic)


ANY_AGE = _MinimumAge()


def plan_delete_unsubscribed(
    snapshot: Snapshot,
    *,
    groups: Sequence[str],
    left_for: timedelta | None = None,
    in_runs: int = 0,
    sightings: Mapping[tuple[str, str], Sighting] | None = None,
) -> Plan:
    """
    Plan to delete all unsubscribed offsets of live groups.

    Groups with an unknown subscription are skipped, with a note if they have committed offsets.
    With `left_for` or `in_runs`, a topic not observed as unsubscribed for that long, or by that
    many runs, is skipped with a note. `sightings` are by group and topic, up to this snapshot.
    """
    facts = SnapshotIndex(snapshot)
    minimum_age = _MinimumAge(left_for, in_runs, seen_in(sightings, snapshot))

    def parts() -> Iterator[Part]:
        chosen, findings = choose_groups(facts, groups)
        yield from findings
        for group in chosen:
            why, name = uncheckable_reason(group), group.group_id
            if not why:
                yield from _unsubscribed(facts, group, minimum_age)
            elif unread := snapshot.unread_commits(name):
                words = f"{why}, and its committed offsets could not be read: {unread}"
                yield note("incomplete", words, name)
            elif facts.commits_of(name):
                yield note("left-out", why, name)

    descriptions = (
        "delete offsets of topics not subscribed to",
        list_names(groups),
        str(minimum_age),
    )
    request = ", ".join(filter(None, descriptions))
    return plan_of(snapshot, parts(), intent=Intent.DELETE_OFFSETS, request=request)


def deletion_refusal(group: Group, topic: str) -> Finding | None:
    """
    Return why a group's offsets of a topic cannot be deleted; None if they can.

    These are the broker's rules: it returns error 86 for a subscribed topic, and 68 for a group
    whose members are not consumers.
    """
    if not group.is_live:
        return None
    if why := uncheckable_reason(group):
        if group.type is not GroupType.UNKNOWN and why != group.unreadable_subscription:
            return block("group-live", why, group.group_id)
        return block("unreadable", f"the group's subscription is unknown: {why}", group.group_id)
    readers = [member for member in group.members if topic in member.subscription.topics]
    if not readers:
        return None
    names = name_members(readers)
    return Finding("subscribed", Severity.BLOCK, f"subscribed by {names}", group.group_id, topic)


def _named(facts: SnapshotIndex, group: Group, scopes: Sequence[TopicScope]) -> Iterator[Part]:
    """Delete the offsets in the scopes, or all if there are none."""
    committed = facts.commits_of(group.group_id)
    meant = [p for p in committed if _is_meant(p, scopes)]
    refusals = {topic: deletion_refusal(group, topic) for topic in sorted({p.topic for p in meant})}
    yield from dict.fromkeys(refusal for refusal in refusals.values() if refusal)
    for finding in facts.unreadable(group.group_id):
        at = TopicPartition(finding.topic or "", finding.partition or 0)
        if finding.topic is None or _is_meant(at, scopes):
            yield finding
    yield from _not_there(facts, group, scopes)
    yield from _deleted(facts, group, {p: "" for p in meant if not refusals[p.topic]})


def _is_meant(partition: TopicPartition, scopes: Sequence[TopicScope]) -> bool:
    return not scopes or any(partition in scope for scope in scopes)


def _unsubscribed(
    facts: SnapshotIndex, group: Group, minimum_age: _MinimumAge = ANY_AGE
) -> Iterator[Part]:
    name, now = group.group_id, facts.snapshot.taken_at
    yield from facts.unreadable(name)
    refusals = {p: deletion_refusal(group, p.topic) for p in facts.commits_of(name)}
    yield from dict.fromkeys(
        refusal for refusal in refusals.values() if refusal and refusal.rule != "subscribed"
    )
    leftover = [partition for partition, refusal in refusals.items() if not refusal]
    judged = {
        topic: minimum_age.judge(name, topic, now) for topic in sorted({p.topic for p in leftover})
    }
    yield from (found for found in judged.values() if isinstance(found, Finding))
    why = "no member subscribes to the topic"
    whys = {
        p: f"{why}; {seen}" if seen else why
        for p in leftover
        if not isinstance(seen := judged[p.topic], Finding)
    }
    yield from _deleted(facts, group, whys)


def _not_there(facts: SnapshotIndex, group: Group, scopes: Sequence[TopicScope]) -> Iterator[Part]:
    """
    Yield what was named and is not committed, for which Kafka's tool prints "Successful".

    A topic or partition that does not exist is a misspelling, which blocks.
    """
    there = {*facts.commits_of(group.group_id), *facts.unread_of(group.group_id)}
    is_known = not any(facts.unread_commits(group.group_id))
    if is_known and not scopes and not there:
        yield note("no-commit", "no committed offsets", group.group_id)
    for scope in scopes:
        numbers = {partition.partition for partition in there if partition.topic == scope.topic}
        if missing := why_missing(facts, group.group_id, scope, committed=numbers):
            yield missing
            continue
        lacking = set(scope.partitions or ()) - numbers
        if is_known and (lacking or not numbers):
            what = TopicScope(scope.topic, tuple(sorted(lacking)) or None)
            why = f"no committed offset for {what}"
            yield Finding("no-commit", Severity.NOTE, why, group.group_id, scope.topic)


def _deleted(
    facts: SnapshotIndex, group: Group, whys: Mapping[TopicPartition, str]
) -> Iterator[Part]:
    committed = facts.commits_of(group.group_id)
    changes = [Change(p, Position.of(committed[p]), None, why) for p, why in whys.items()]
    if changes:
        yield facts.step(group.group_id, Action.DELETE_OFFSETS, changes)
