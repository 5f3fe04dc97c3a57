"""
Plan to pause partitions of a live group, and to resume them (KIP-1249).

Does not load pandas, so that the keeper process stays small. A partition that is already paused, or
not paused, is a note and no change.

Where a partition has no committed offset, a position is committed before it is paused: its next
owner would start according to auto.offset.reset, where `latest` skips every record that was
produced during the pause. The position is that of the plan, so that nothing after it is
skipped; a position that the application commits itself is later, and wins.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from toolkit.errors import UsageError
from toolkit.model import Group, GroupType, Snapshot, TopicPartition, Unread
from toolkit.model.names import shown_name
from toolkit.plan import Action, Change, Finding, Intent, Plan, Position
from toolkit.planning.changes.clamp import clamp_to_log, leader_epoch_at
from toolkit.planning.changes.targets import LARGEST_OFFSET
from toolkit.planning.holds.hold_context import HoldContext, HoldFacts, HoldTerms
from toolkit.planning.holds.hold_costs import cost_notes
from toolkit.planning.holds.hold_rules import (
    CASE_RULES,
    GROUP_RULES,
    end_of,
    holders,
    is_own_hold,
    other_end,
)
from toolkit.planning.selection.findings import block, note, unread
from toolkit.planning.selection.group_selection import no_such_group
from toolkit.planning.selection.member_names import holder_in_words, in_short
from toolkit.planning.selection.partition_selection import (
    TopicScope,
    missing_partition,
    missing_topic,
    parse_topics,
)
from toolkit.planning.selection.plan_parts import Part, plan_of
from toolkit.planning.selection.snapshot_index import SnapshotIndex

NEEDED_TO_RESUME = frozenset({Unread.HELD_PARTITIONS, Unread.MEMBERS})
TAKEN_OVER = "takes over the hold of a crashed keeper"
HOLD_TERMS = HoldTerms()
NO_HOLD_FACTS = HoldFacts()


def plan_pause(
    snapshot: Snapshot,
    *,
    group: str,
    topics: Sequence[str],
    terms: HoldTerms = HOLD_TERMS,
    hold_facts: HoldFacts = NO_HOLD_FACTS,
) -> Plan:
    """
    Plan to pause partitions of one group.

    `group` is a name, `topics` are scopes; a topic means all its partitions. A Streams application
    (KIP-1071) is paused as a whole, for which no topic need be given. Raises UsageError if a scope
    cannot be parsed, or no topic is given for another group.
    """
    facts = SnapshotIndex(snapshot)
    known = facts.groups.get(group)
    if not topics and known and known.type is GroupType.STREAMS:
        topics = sorted(known.subscribed_topics)
    if not topics:
        raise UsageError(
            "no topic given", hint=("name partitions (orders:0,1) or a whole topic (orders)")
        )
    scopes = parse_topics(topics)

    def parts() -> Iterator[Part]:
        if known is None:
            yield no_such_group(group, snapshot)
            return
        if unknown := tuple(facts.unread_commits(group)):
            yield from unknown
            return
        partitions, missing = every_partition(facts, group, scopes)
        yield from missing
        left = [p for p in partitions if p in known.paused and p in hold_facts.orphaned]
        yield from already_paused(known, partitions, left, hold_facts.orphaned)
        unpaused = tuple(p for p in partitions if p not in known.paused)
        case = HoldContext(facts, known, unpaused, terms, hold_facts)
        if unpaused:
            yield from judge(case)
            yield from _first_commits(facts, case)
        elif not left:
            yield from other_end(case)
        whys = [(p, _why_held(case, p)) for p in unpaused] + [(p, TAKEN_OVER) for p in left]
        if changes := [Change(partition, None, None, why) for partition, why in whys]:
            yield facts.step(group, Action.HOLD, changes)

    request = f"pause {shown_name(group)} {' '.join(map(str, scopes))} {terms.words}"
    plan = plan_of(snapshot, parts(), intent=Intent.PAUSE, request=request)
    return replace(plan, terms=terms.as_terms())


def _first_commits(facts: SnapshotIndex, case: HoldContext) -> Iterator[Part]:
    """Yield the step that commits what no offset is committed for, and what blocks it."""
    words = case.terms.commit_missing
    if not words:
        return
    group = case.group
    found = list(_commits_where_none(case.index, group, case.uncommitted, words))
    yield from (one for one in found if isinstance(one, Finding))
    changes = [one for one in found if isinstance(one, Change)]
    if changes:
        listed = ", ".join(
            f"{c.partition.topic}:{c.partition.partition} at {c.after.offset}"
            for c in changes
            if c.after
        )
        yield note("first-commits", f"committed before the pause: {listed}", group.group_id)
        yield facts.step(group.group_id, Action.FIRST_COMMIT, changes)


def _commits_where_none(
    index: SnapshotIndex, group: Group, partitions: Iterable[TopicPartition], words: str
) -> Iterator[Change | Finding]:
    """
    Yield the commit of each partition, or what blocks it.

    The latest position is the last stable offset: a read_committed consumer that starts after it
    never receives the records of an open transaction.
    """
    for partition in partitions:
        log = index.snapshot.logs.get(partition)
        if log is None or log.log_start is None or log.log_end is None:
            why = "log start or log end offset could not be read"
            yield block("unreadable", why, group.group_id, partition)
            continue
        offset = {"earliest": log.log_start, "latest": log.stable_end}.get(words, -1)
        if offset < 0:
            offset = int(words)
        position, clamped = clamp_to_log(Position(offset, leader_epoch_at(log, offset)), log)
        why = f"no committed offset: {position.offset} is committed first"
        yield Change(partition, None, position, f"{why}; {clamped}" if clamped else why)


def plan_resume(
    snapshot: Snapshot,
    *,
    group: str,
    topics: Sequence[str] = (),
    by: tuple[str, str] | None = None,
) -> Plan:
    """
    Plan to resume paused partitions of one group; no topic means all of them.

    Raises UsageError if a scope cannot be parsed.
    """
    scopes = parse_topics(topics)
    facts = SnapshotIndex(snapshot)
    known = facts.groups.get(group)

    def parts() -> Iterator[Part]:
        if known is None:
            yield no_such_group(group, snapshot)
            return
        if not known.described:
            yield block("unreadable-member", "the group's members are unknown", group)
        partitions, missing = every_partition(facts, group, scopes)
        yield from (f for f in missing if not _names_paused(f, known))
        held = {p for p in known.paused if not scopes or any(p in scope for scope in scopes)}
        # Committed offsets are not needed: no offset is moved.
        hidden = [p for p in facts.problems_of(group) if p.what in NEEDED_TO_RESUME]
        yield from map(unread, hidden)
        idle = [p for p in (*partitions, *_of_deleted(facts, known, scopes)) if p not in held]
        if idle and not hidden:
            yield note("not-paused", f"{in_short(idle)} is not paused", group)
        elif not scopes and not held and not hidden:
            yield note("not-paused", "no partition of this group is paused", group)
        yield from of_others(known, held, by)
        if held:
            changes = [
                Change(p, None, None, f"held by {holder_in_words(known.paused[p])}") for p in held
            ]
            yield facts.step(group, Action.RELEASE, changes)

    request = " ".join(["resume", shown_name(group), *map(str, scopes)])
    return plan_of(snapshot, parts(), intent=Intent.RESUME, request=request)


def check_position(words: str) -> None:
    """Raise UsageError unless it is "earliest", "latest" or an offset."""
    is_offset = re.fullmatch(r"[0-9]{1,19}", words) and int(words) <= LARGEST_OFFSET
    if words not in {"earliest", "latest"} and not is_offset:
        raise UsageError(
            f"unknown position {words!r} for partitions without a committed offset",
            hint="use earliest, latest or an offset",
        )


def judge(case: HoldContext) -> Iterator[Finding]:
    """Yield what blocks a hold, notes about it, and its cost."""
    for rule, why_not in GROUP_RULES.items():
        if why := why_not(case.group):
            yield block(rule, why, case.group.group_id)
    for judge_by in CASE_RULES:
        yield from judge_by(case)
    yield from cost_notes(case)


def every_partition(
    index: SnapshotIndex, group_id: str, scopes: Sequence[TopicScope]
) -> tuple[tuple[TopicPartition, ...], tuple[Finding, ...]]:
    """Return the partitions in the scopes, and findings about missing ones."""
    found: set[TopicPartition] = set()
    missing: list[Finding] = []
    for scope in scopes:
        known = {TopicPartition(scope.topic, n) for n in index.partitions.get(scope.topic, ())}
        if not known:
            missing.append(missing_topic(index, group_id, scope.topic))
            continue
        named = {TopicPartition(scope.topic, number) for number in scope.partitions or ()}
        missing += [missing_partition(index, group_id, one) for one in sorted(named - known)]
        found |= known if scope.partitions is None else named & known
    return tuple(sorted(found)), tuple(missing)


def already_paused(
    group: Group,
    partitions: Iterable[TopicPartition],
    left: Collection[TopicPartition],
    orphaned: frozenset[TopicPartition],
) -> Iterator[Finding]:
    """Yield partitions that are paused already, except those `left` of a hold without a keeper."""
    if left and (also := orphaned.difference(left)):
        why = f"{in_short(also)} of the same hold stays paused as well, until that ends"
        yield note("already-paused", why, group.group_id)
    for member in holders(group):
        if again := [p for p in partitions if p in member.holds and p not in left]:
            why = f"{in_short(again)} is already paused by {holder_in_words(member)}"
            why += f", which ends {end_of(member.hold_note)}" if member.hold_note else ""
            yield note("already-paused", why, group.group_id)


def _why_held(case: HoldContext, partition: TopicPartition) -> str:
    owner, lag = case.owners.get(partition), case.lag(partition)
    whose = f"owned by {owner.display_name}" if owner else "no owner"
    return f"{whose}; no committed offset" if lag is None else f"{whose}; lag {lag:,}"


def _names_paused(finding: Finding, group: Group) -> bool:
    """Return whether a missing partition is still held: it was deleted since."""
    return any(
        finding.topic == p.topic and finding.partition in {None, p.partition} for p in group.paused
    )


def _of_deleted(
    index: SnapshotIndex, group: Group, scopes: Iterable[TopicScope]
) -> Iterator[TopicPartition]:
    """Yield the named partitions of topics that were deleted while one of theirs is held."""
    deleted = {partition.topic for partition in group.paused} - index.partitions.keys()
    for scope in scopes:
        if scope.topic in deleted:
            yield from (TopicPartition(scope.topic, number) for number in scope.partitions or ())


def of_others(
    group: Group, held: set[TopicPartition], by: tuple[str, str] | None
) -> Iterator[Finding]:
    """Yield what another user holds; in a classic group one member holds all paused partitions."""
    for member in holders(group):
        mine: Mapping[bool, list[TopicPartition]] = {
            meant: [p for p in member.holds if (p in held) is meant] for meant in (True, False)
        }
        if mine[True] and mine[False] and group.type is GroupType.STREAMS:
            why = f"{in_short(mine[False])} would be resumed as well; name no topic"
            yield block("releases-more", why, group.group_id)
        if not mine[True] or is_own_hold(member, by):
            continue
        who = holder_in_words(member)
        why = (
            f"{in_short(mine[True])} was paused by {who}. Override foreign-hold to resume it anyway"
        )
        yield block("foreign-hold", why, group.group_id)
        if group.type is GroupType.CLASSIC and mine[False]:
            why = (
                f"{who} also paused {in_short(mine[False])}, which would be resumed as well; name "
                "all of them"
            )
            yield block("releases-more", why, group.group_id)
