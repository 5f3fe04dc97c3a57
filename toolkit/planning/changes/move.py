"""
Plan to move the committed offsets of a live group, while its partitions are held.

Offsets advance until the partitions are held, so the approval covers the request: the target, the
partitions, the capture mode. The exact plan is made and checked once they are held. Partitions of a
streams group cannot be held: they are moved while the owners are evicted.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime

from toolkit.model import CaptureMode, GroupState, GroupType, Snapshot, TopicPartition
from toolkit.model.times import parse_duration
from toolkit.plan import NEW_TOPICS, OFFSETS, Action, Finding, Intent, Plan, Position
from toolkit.planning.changes.pause import plan_pause
from toolkit.planning.changes.reset import plan_reset
from toolkit.planning.changes.targets import (
    MODES,
    PastEnd,
    Target,
    ToDatetime,
    from_offsets,
    parse_target,
)
from toolkit.planning.changes.topic_recreated import OffsetsOrigin
from toolkit.planning.holds.hold_context import HoldFacts, HoldTerms
from toolkit.planning.selection.findings import note
from toolkit.planning.selection.group_selection import is_unread
from toolkit.planning.selection.partition_selection import scopes_of

UNHELD = (
    "partitions of a Streams group cannot be paused (KIP-1071). Their owners are evicted, "
    "rejoin, and wait for the new offsets; on all their partitions, uncommitted records are "
    "redelivered. Their next commits are watched for up to 35 s. Under load this may "
    "end a stream thread: with the default exception handler its instance then stops, with "
    "REPLACE_THREAD it continues"
)

WATCHED = (
    "after the partitions are resumed, the group's commits are watched for up to 35 s: a partition "
    "is done once the application commits from its new offset. If a late commit of a record that "
    "was read before the pause overwrites the new offset, the partition is paused and moved once "
    "more"
)


@dataclass(frozen=True, slots=True)
class MoveRequest:
    """A request to move offsets of a live group: target, topics and capture mode."""

    target: Target
    group: str
    topics: tuple[str, ...] = ()
    new_topics: bool = False
    prefer: CaptureMode = CaptureMode.LOSSLESS
    hold_facts: HoldFacts = field(default_factory=HoldFacts)
    commit_missing: str = ""


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """
    A plan with the current offsets, for approval, from which the exact one is made later.

    Its target is the one it was planned with or, if that named offsets, those of the plan.
    """

    plan: Plan

    @property
    def at(self) -> datetime | None:
        """The instant of which later facts must have the offsets; None where no time is meant."""
        target = _target_of(self.plan)
        return target.at if isinstance(target, ToDatetime) else None

    def exact(self, facts: Snapshot) -> Plan:
        """Plan again from later facts, for the topics of the approved plan and no later ones."""
        (group,) = self.plan.group_ids
        exact = plan_reset(
            facts,
            _target_of(self.plan),
            groups=[group],
            topics=_scopes(self.plan),
            new_topics=NEW_TOPICS in self.plan.allows,
        )
        if not is_holdable(facts, group):
            exact = _as_if_held(exact)
        topic_ids = {**exact.topic_ids, **self.plan.topic_ids}
        return replace(exact, intent=Intent.MOVE, request=self.plan.request, topic_ids=topic_ids)


def _scopes(plan: Plan) -> tuple[str, ...]:
    return tuple(str(scope) for scope in scopes_of(change.partition for _, change in plan.changes))


def plan_move(snapshot: Snapshot, request: MoveRequest) -> PlannedMove:
    """
    Plan a reset of a live group as if its partitions were held now.

    Its fingerprint identifies the request, not the offsets. Raises UsageError if a scope cannot be
    parsed.
    """
    estimate = _as_if_held(
        plan_reset(
            snapshot,
            request.target,
            groups=[request.group],
            topics=request.topics,
            new_topics=request.new_topics,
        )
    )
    words = estimate.request.replace("reset", "move", 1)
    terms = {"target": request.target.words, "prefer": str(request.prefer), "request": words}
    made_at = estimate.made_at
    if isinstance(request.target, ToDatetime):
        made_at, at = _times(request.target, made_at)
        terms |= {**at, "past_end": str(request.target.past_end)}
    elif not _recomputes(request.target.words):
        terms |= {OFFSETS: "as planned"}
    if request.commit_missing:
        terms["commit_missing"] = request.commit_missing
    plan = replace(
        estimate,
        intent=Intent.MOVE,
        request=words,
        made_at=made_at,
        terms=terms,
        findings=(*estimate.findings, *_of_the_hold(snapshot, request, _scopes(estimate))),
    )
    return PlannedMove(plan)


def _times(target: ToDatetime, made_at: datetime) -> tuple[datetime, dict[str, str]]:
    """
    Return the time of a plan, and its term for the time that it names.

    A duration counts back from when the plan is made, so that it needs no term: the same request
    has the same fingerprint a moment later.
    """
    mode, _, value = target.request.partition(" ")
    if mode == "by-duration":
        return target.at + parse_duration(value), {}
    return made_at, {"at": target.at.isoformat()}


def move_again(plan: Plan, partitions: Collection[TopicPartition]) -> PlannedMove:
    """Return a move of some partitions to the very offsets of a plan that was applied."""
    steps = (
        replace(step, changes=tuple(c for c in step.changes if c.partition in partitions))
        for step in plan.steps
    )
    return PlannedMove(replace(plan, terms={}, steps=tuple(steps)))


def _target_of(plan: Plan) -> Target:
    terms = plan.terms
    past_end = terms.get("past_end", PastEnd.KEEP)
    if "at" in terms:
        return parse_target("to-datetime", terms["at"], now=plan.made_at, past_end=past_end)
    if _recomputes(words := terms.get("target", "")):
        mode, _, value = words.partition(" (")[0].partition(" ")
        return parse_target(mode, value, now=plan.made_at, past_end=past_end)
    rows: dict[tuple[str | None, TopicPartition], int | Position] = {
        (step.group_id, change.partition): change.after
        for step, change in plan.changes
        if change.after
    }
    origin = OffsetsOrigin(plan.cluster_id, plan.topic_ids)
    return from_offsets(rows, source="the plan", origin=origin)


def _recomputes(words: str) -> bool:
    """Return whether a target names no offsets: they follow from the facts."""
    return words.partition(" ")[0] in MODES


def is_holdable(snapshot: Snapshot, group_id: str) -> bool:
    """Return whether partitions of a group can be held; not in a streams group (KIP-1071)."""
    types = (group.type for group in snapshot.groups if group.group_id == group_id)
    return GroupType.STREAMS not in types


def moves_back(done: Plan, facts: Snapshot) -> bool:
    """Return whether a live group would overwrite the offsets that an undo of a run restores."""
    restored = [change.partition for _, change in done.changes if change.before]
    return (
        bool(restored)
        and done.intent in {Intent.MOVE, Intent.RESET}
        and len(done.group_ids) == 1
        and any(group.is_live and not is_unread(group, restored) for group in facts.groups)
    )


def move_back(done: Plan, run_id: str) -> MoveRequest:
    """Return the move that restores the offsets of a live group from before a run."""
    (group,) = done.group_ids
    before: dict[tuple[str | None, TopicPartition], int | Position] = {
        (group, change.partition): change.before for _, change in done.changes if change.before
    }
    origin = OffsetsOrigin(done.cluster_id, done.topic_ids)
    return MoveRequest(from_offsets(before, source=f"as before run {run_id}", origin=origin), group)


def _of_the_hold(
    snapshot: Snapshot, request: MoveRequest, scopes: tuple[str, ...]
) -> tuple[Finding, ...]:
    """Return the findings about holding the partitions to be moved, and the cost."""
    if not scopes:
        return ()
    if not is_holdable(snapshot, request.group):
        return (note("move-unheld", UNHELD, request.group),)
    terms = HoldTerms(request.prefer, for_move=True, commit_missing=request.commit_missing)
    pause = plan_pause(
        snapshot, group=request.group, topics=scopes, terms=terms, hold_facts=request.hold_facts
    )
    return (*pause.findings, note("watched", WATCHED, request.group))


def _as_if_held(plan: Plan) -> Plan:
    """Return a reset of a live group as it is once nobody reads its partitions."""
    steps = (
        step if step.state is GroupState.EMPTY else replace(step, action=Action.MOVE)
        for step in plan.steps
    )
    findings = (found for found in plan.findings if found.rule != "group-live")
    return replace(plan, steps=tuple(steps), findings=tuple(findings))
