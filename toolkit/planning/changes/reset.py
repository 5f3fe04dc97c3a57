"""
Plan a reset of committed offsets: to the log start or end, an offset, a time, or given offsets.

A target that is out of range is clamped to the log, and the change says so. Metadata and leader
epoch stay if the offset stays; `toolkit.planning.changes.clamp` says what a new offset gets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from toolkit.model import Commit, Group, LogOffsets, Snapshot, TopicPartition
from toolkit.plan import NEW_TOPICS, Change, Finding, Intent, Plan, Position, Severity
from toolkit.planning.changes.clamp import clamp_to_log, placed
from toolkit.planning.changes.targets import Target, TargetOffset, TargetPlace, narrow
from toolkit.planning.changes.topic_recreated import with_recreated_topics
from toolkit.planning.selection.findings import block, note
from toolkit.planning.selection.group_selection import (
    choose_groups,
    commit_action,
    is_plannable,
    why_not_idle,
)
from toolkit.planning.selection.partition_selection import (
    TopicScope,
    choose_partitions,
    parse_topics,
)
from toolkit.planning.selection.plan_parts import PENDING, Part, list_names, plan_of
from toolkit.planning.selection.snapshot_index import SnapshotIndex


def plan_reset(
    snapshot: Snapshot,
    target: Target,
    *,
    groups: Sequence[str],
    topics: Sequence[str] = (),
    new_topics: bool = False,
) -> Plan:
    """
    Plan a reset of groups to a target; the same facts give the same plan.

    `groups` holds names and shell patterns, `topics` scopes (`TOPIC` or `TOPIC:0,1`). `new_topics`
    also commits topics that a group has never committed. A live group, unless all changed
    partitions are paused, or a group with unknown facts is planned as far as possible and blocked
    by a finding. Raises UsageError if a scope cannot be parsed or no group is given.
    """
    scopes = parse_topics(topics)
    request = _ResetRequest(SnapshotIndex(snapshot), target, scopes, new_topics)
    chosen, findings = choose_groups(request.index, groups)

    def parts() -> Iterator[Part]:
        yield from findings
        yield from target.findings(request.index, chosen)
        for group in chosen:
            yield from _plan_group(request, group)

    words = f"reset {', '.join([list_names(groups), *map(str, scopes)])} {target.words}"
    allows = frozenset({NEW_TOPICS} if new_topics else ())
    known = with_recreated_topics(parts(), target.origin, snapshot)
    return plan_of(snapshot, known, intent=Intent.RESET, request=words, allows=allows)


def may_have_committed(snapshot: Snapshot, topics: Collection[str]) -> set[str]:
    """Return the groups with committed offsets of some topics, and those that may have some."""
    return {commit.group_id for commit in snapshot.commits if commit.topic in topics} | {
        problem.group_id
        for problem in snapshot.problems
        if problem.hides_commits
        and problem.group_id
        and (problem.topic is None or problem.topic in topics)
    }


def skip_unused_topics(plan: Plan) -> Plan:
    """Return a plan in which a topic that a group never committed is skipped, not a block."""
    findings = (
        replace(found, severity=Severity.NOTE) if found.rule == "topic-never-used" else found
        for found in plan.findings
    )
    return replace(plan, findings=tuple(findings))


@dataclass(frozen=True, slots=True)
class _ResetRequest:
    index: SnapshotIndex
    target: Target
    scopes: Sequence[TopicScope]
    new_topics: bool
    texts: dict[str, str] = field(default_factory=dict)  # one object for all changes


def _plan_group(request: _ResetRequest, group: Group) -> Iterator[Part]:
    index, group_id = request.index, group.group_id
    if not is_plannable(index, group):
        yield from why_not_idle(index, group)
        return
    partitions, findings = _partitions(request, group_id)
    commits = index.commits_of(group_id)
    changes = []
    for partition in partitions:
        place = _place(group, partition, commits.get(partition), index.snapshot.logs[partition])
        aim = request.target.aim(place, index)
        findings += _findings(aim, place)
        if aim.to is not None:
            committed = Position.of(place.commit) if place.commit else None
            after, moved = placed(aim.to, committed, place.log)
            if after != committed:
                why = f"{aim.why}; {moved}" if moved else aim.why
                changes.append(
                    Change(partition, committed, after, request.texts.setdefault(why, why))
                )
    changed = [change.partition for change in changes]
    # Without changes, the selected partitions decide whether the group may be changed.
    yield from why_not_idle(index, group, changed or partitions)
    yield from findings
    if changes:
        yield index.step(group_id, commit_action(group, changed), changes)


def _partitions(
    request: _ResetRequest, group_id: str
) -> tuple[tuple[TopicPartition, ...], list[Finding]]:
    """Return the selected partitions: by the scopes, the given rows, or both."""
    scopes = request.scopes
    findings: list[Finding] = []
    named = request.target.named(group_id)
    if named is not None:
        scopes, findings = narrow(named, scopes, group_id)
        if not scopes:
            return (), findings
    chosen = choose_partitions(request.index, group_id, scopes, new_topics=request.new_topics)
    return chosen.partitions, [*findings, *chosen.findings]


def _place(
    group: Group, partition: TopicPartition, commit: Commit | None, log: LogOffsets
) -> TargetPlace:
    start, end, stable = log.log_start or 0, log.log_end or 0, log.last_stable
    if stable is None or stable > end:
        stable = end
    return TargetPlace(group, partition, commit, log, start, end, max(stable, start))


def _findings(aim: TargetOffset, place: TargetPlace) -> tuple[Finding, ...]:
    found: tuple[Finding, ...] = ()
    if place.commit and place.commit.pending:
        found = (block("pending-transaction", PENDING, place.group.group_id, place.partition),)
    if aim.rule:
        about = (place.group.group_id, *place.partition)
        return (*found, Finding(aim.rule, aim.severity, aim.why, *about))
    offset = aim.to.offset if isinstance(aim.to, Position) else aim.to
    if offset is None or place.log_start <= offset <= place.log_end:
        return found
    return (*found, _out_of_range(offset, place))


def _out_of_range(offset: int, place: TargetPlace) -> Finding:
    group_id = place.group.group_id
    if max(0, offset) < place.log_start:
        why = (
            f"offset {offset} is before the log start offset {place.log_start}: those "
            "records are deleted"
        )
        return block("before-log-start", why, group_id, place.partition)
    _, clamped = clamp_to_log(Position(offset), place.log)
    return note("clamped", clamped, group_id, place.partition)
