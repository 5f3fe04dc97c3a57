"""The outcome of a move, from the outcomes of its parts and what was seen of the application."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from toolkit.model import Snapshot, TopicPartition
from toolkit.operate.watch_move import with_results
from toolkit.plan import Action, Outcome, Plan, Result, StepOutcome
from toolkit.planning.holds.continuation import MovedOffset

Moved = Mapping[TopicPartition, Result]


def combined(plan: Plan, outcomes: Sequence[Outcome], moved: Moved) -> Outcome:
    """Return the result of a plan whose parts were applied; its run is that of the move."""
    first = next((one for one in outcomes if _has_moved(one)), outcomes[0])
    # A move that was repeated is in the result of the first.
    steps = (
        as_seen(step, moved)
        for outcome in outcomes
        for step in outcome.steps
        if step.action is not Action.MOVE or outcome is first
    )
    return replace(
        first,
        fingerprint=plan.fingerprint,
        started_at=outcomes[0].started_at,
        finished_at=datetime.now(UTC),
        steps=tuple(steps),
        interrupted=next((one.interrupted for one in outcomes if one.interrupted), ""),
    )


def as_seen(step: StepOutcome, moved: Moved) -> StepOutcome:
    """Return the outcome of a move with what was seen of it last."""
    if step.action is not Action.MOVE:
        return step
    return with_results(step, [moved[one.partition] for one in step.results])


def moved_offsets(exact: Plan, facts: Snapshot) -> dict[TopicPartition, MovedOffset]:
    """Return where partitions are moved to, with what was known of them when nobody read them."""
    return {
        change.partition: MovedOffset(
            change.after.offset,
            change.before.offset if change.before else None,
            log.log_end if (log := facts.logs.get(change.partition)) else None,
        )
        for _, change in exact.changes
        if change.after
    }


def _has_moved(outcome: Outcome) -> bool:
    return any(step.action is Action.MOVE for step in outcome.steps)
