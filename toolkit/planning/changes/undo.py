"""
Plan the undo of an applied plan, complete or partial.

The current state decides: a change that is still in place is reverted, one that was not made or is
already undone is skipped, and an offset that has changed since is a finding. An undo can be undone
in the same way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum

from toolkit.errors import UsageError
from toolkit.model import Group, GroupType, Snapshot
from toolkit.model.groups import all_meant
from toolkit.model.names import shown_name
from toolkit.plan import (
    HOLD_ACTIONS,
    NEW_GROUP,
    Action,
    Change,
    Finding,
    Intent,
    Plan,
    Severity,
    Step,
)
from toolkit.planning.changes import topic_recreated
from toolkit.planning.changes.copy import uncommitted, without_offset
from toolkit.planning.changes.delete_offsets import deletion_refusal
from toolkit.planning.changes.pause import plan_pause, plan_resume
from toolkit.planning.selection.findings import block, note, unread
from toolkit.planning.selection.partition_selection import scopes_of
from toolkit.planning.selection.plan_parts import (
    Part,
    commit_step,
    list_names,
    out_of_range,
    plan_of,
    shown,
)
from toolkit.planning.selection.snapshot_index import SnapshotIndex


class IfMoved(StrEnum):
    """How to treat offsets that were changed after the run."""

    LEAVE = "leave"  # block, and keep the offset
    RESTORE = "restore"  # restore it as well


def of_groups(done: Plan, names: Sequence[str]) -> Plan:
    """
    Return the part of a run about the groups that are meant, and about those they depend on.

    No names mean all groups. Raises UsageError for a name that means none of the run.
    """
    if not names or not done.steps:
        return done
    meant, missing = all_meant(names, done.group_ids)
    if missing:
        raise UsageError(
            f"the run changed no group {' '.join(map(shown_name, missing))}",
            hint=f"it changed {list_names(done.group_ids)}",
        )
    chosen = _with_partners(done, meant)
    return replace(done, steps=tuple(step for step in done.steps if step.group_id in chosen))


def _with_partners(done: Plan, groups: Collection[str]) -> set[str]:
    """Add to groups those that they were renamed from, or to: they are undone together."""
    found = set(groups)
    for step in done.steps:
        if step.needs is not None and not found.isdisjoint(pair := {step.group_id, step.needs}):
            found |= pair
    return found


def plan_undo(
    done: Plan,
    snapshot: Snapshot,
    *,
    moved: IfMoved = IfMoved.LEAVE,
    request: str = "",
    by: tuple[str, str] | None = None,
) -> Plan:
    """
    Plan to restore what a plan changed: offset, leader epoch and metadata, in reverse order.

    `snapshot` must have the groups and topics of `done`. A deleted group is restored with its
    offsets, as a simple group; one that `done` created is deleted, unless it is in use. The plan is
    for the cluster of `done`, so that a guard rail detects a snapshot of another one. Offsets of a
    topic that was re-created since block. Paused partitions are resumed, and vice versa; what
    another user than `by` holds by now blocks.
    """
    if any(step.action in HOLD_ACTIONS for step in done.steps):
        return _undo_hold(done, snapshot, request, by)
    facts = SnapshotIndex(snapshot)
    origin = topic_recreated.OffsetsOrigin(done.cluster_id, done.topic_ids)
    undone = {step.needs: step.group_id for step in done.steps if step.needs is not None}
    parts: list[Part] = []
    for step in reversed(done.steps):
        needs = undone.get(step.group_id)
        if needs is not None and any(_stops(part, needs) for part in parts):
            why = f"kept, because {shown_name(needs)} cannot be restored"
            parts.append(note("kept", why, step.group_id))
            continue
        waits = any(isinstance(part, Step) and part.group_id == needs for part in parts)
        parts += [
            replace(part, needs=needs) if waits and isinstance(part, Step) else part
            for part in topic_recreated.with_recreated_topics(
                _undo(step, facts, moved), origin, snapshot
            )
        ]
    parts += _without_blocked(done, parts) if parts else [nothing_to_undo(done)]
    plan = plan_of(
        snapshot,
        parts,
        intent=Intent.UNDO,
        request=request or f"undo of: {done.request}",
        allows=frozenset({NEW_GROUP}),
    )
    return replace(plan, cluster=done.cluster, cluster_id=done.cluster_id)


def _undo_hold(done: Plan, snapshot: Snapshot, request: str, by: tuple[str, str] | None) -> Plan:
    """Plan to resume the partitions that a run paused, or to pause those that it resumed."""
    (group,) = done.group_ids
    firsts = [step for step in done.steps if step.action not in HOLD_ACTIONS]
    partitions = [
        change.partition for step in done.steps if step not in firsts for change in step.changes
    ]
    topics = [str(scope) for scope in scopes_of(partitions)]
    if done.intent is Intent.RESUME:
        plan = plan_pause(snapshot, group=group, topics=topics)
    else:
        plan = plan_resume(snapshot, group=group, topics=topics, by=by)
        facts = SnapshotIndex(snapshot)
        parts = [part for step in firsts for part in _undo(step, facts, IfMoved.LEAVE)]
        plan = replace(
            plan,
            steps=(*plan.steps, *(part for part in parts if isinstance(part, Step))),
            findings=(*plan.findings, *(part for part in parts if isinstance(part, Finding))),
        )
    return replace(
        plan,
        request=request or f"undo of: {done.request}",
        cluster=done.cluster,
        cluster_id=done.cluster_id,
    )


def stay_committed(steps: Iterable[Step]) -> Iterator[Finding]:
    for step in steps:
        if firsts := [change.partition for change in step.changes if change.before is None]:
            why = (
                f"the first committed offset of {' '.join(map(str, scopes_of(firsts)))} stays: a "
                "broker deletes no offset of a topic that a live group subscribes to (KIP-496). "
                "Undo this run again once the group has stopped"
            )
            yield note("stays-committed", why, step.group_id)


def _stops(part: Part, group_id: str) -> bool:
    return (
        isinstance(part, Finding)
        and part.severity is Severity.BLOCK
        and part.rule != topic_recreated.RULE  # the changes stay in the plan
        and part.group_id == group_id
    )


def _without_blocked(done: Plan, parts: Sequence[Part]) -> Iterator[Finding]:
    """Say how the other groups are undone where some block."""
    blocked = {part.group_id for part in parts if isinstance(part, Finding) and part.blocks}
    stopped = _with_partners(done, [name for name in done.group_ids if name in blocked])
    if stopped and (others := [name for name in done.group_ids if name not in stopped]):
        named = " ".join(map(shown_name, others))
        why = (
            f"blocked for {list_names(sorted(stopped))}. To undo only the others, name them with "
            f"--group, or groups in a notebook: {named}"
        )
        yield Finding("undo-others", Severity.NOTE, why)


def nothing_to_undo(done: Plan) -> Finding:
    """Return the note that an undo changes nothing, and why."""
    why = "everything is already as before the run"
    if not done.steps:
        why = "the run changed nothing"
    elif all(change.before == change.after for _, change in done.changes):
        why = "no committed offset was changed"
    return Finding("nothing-to-undo", Severity.NOTE, why)


def _undo(step: Step, facts: SnapshotIndex, moved: IfMoved) -> Iterator[Part]:
    """Yield the steps that revert one step, and what blocks them."""
    group = facts.groups.get(step.group_id)
    if step.action is Action.DELETE_GROUP and not step.changes and group is None:
        why = "cannot be restored: the group had no committed offsets"
        yield note("cannot-come-back", why, step.group_id)
    if step.action is Action.FIRST_COMMIT and group and group.is_live:
        yield from stay_committed((step,))
        return
    if unknown := (*facts.unlisted(step.group_id), *facts.unread_commits(step.group_id)):
        yield from unknown
        return
    changes = []
    for change in step.changes:
        back = _back(step.group_id, change, facts, moved)
        if isinstance(back, Finding):
            yield back
        elif back:
            changes.append(back)
    removed = [change for change in changes if change.after is None]
    put_back = [change for change in changes if change.after is not None]
    if put_back:
        yield from _put_back(step, facts, put_back)
    if removed and group:
        yield from _removed(step, facts, group, removed)


def _back(
    group_id: str, change: Change, facts: SnapshotIndex, moved: IfMoved
) -> Change | Finding | None:
    """Return the change that reverts one change, a finding that blocks it, or None."""
    partition, before = change.partition, change.before
    if problem := facts.unread_of(group_id).get(partition):
        return unread(problem)
    committed = facts.committed_position(group_id, partition)
    if before in {change.after, committed}:
        return None
    why = "as it was before"
    if committed != change.after:
        now, then = shown(committed, change.after), shown(change.after, committed)
        why = f"committed offset is {now}, not {then} as left by this run"
        if moved is not IfMoved.RESTORE:
            return block("moved-since", why, group_id, partition)
    if before and (gone := facts.why_gone(partition)):
        return block("missing-partition", gone, group_id, partition)
    outside = before and out_of_range(before.offset, facts.snapshot.logs.get(partition))
    return Change(partition, committed, before, f"{why}; {outside}" if outside else why)


def _put_back(step: Step, facts: SnapshotIndex, changes: list[Change]) -> Iterator[Part]:
    """Commit the previous offsets; this re-creates a deleted group."""
    if step.group_id not in facts.groups and step.type is not GroupType.SIMPLE:
        why = (
            f"was a {step.type} group; restored as a group without members. Until a consumer "
            "joins, retention counts from each offset's commit time"
        )
        yield note("comes-back-simple", why, step.group_id)
    positions = {c.partition: (c.after, c.why) for c in changes if c.after is not None}
    if step.group_id not in facts.groups:
        name = step.group_id
        yield from uncommitted(name, name, without_offset(facts, name, positions))
    yield from commit_step(facts, step.group_id, positions)


def _removed(
    step: Step, facts: SnapshotIndex, group: Group, changes: list[Change]
) -> Iterator[Part]:
    """Delete what the plan added, and the group if the plan created it and it is unused."""
    everything = {change.partition for change in changes} == facts.commits_of(group.group_id).keys()
    hidden = any(facts.unreadable(group.group_id))
    if step.creates and everything and not hidden and not group.is_live:
        yield facts.step(step.group_id, Action.DELETE_GROUP, changes)
        return
    topics = sorted({change.partition.topic for change in changes})
    refusals = {topic: deletion_refusal(group, topic) for topic in topics}
    yield from dict.fromkeys(refusal for refusal in refusals.values() if refusal)
    if deletable := [change for change in changes if not refusals[change.partition.topic]]:
        yield facts.step(step.group_id, Action.DELETE_OFFSETS, deletable)
