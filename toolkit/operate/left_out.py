"""Leave groups out of a rescue: one that a client commits for must not keep all others from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from toolkit.model import TopicPartition
from toolkit.operate.read_back import refused_step
from toolkit.plan import Action, ChangeStatus, Finding, Intent, Position, Result, Step, StepOutcome
from toolkit.planning.guardrails.registry import CheckContext

OF_ONE_GROUP = frozenset({"facts-moved", "group-live", "keeps-committing"})


def left_out(case: CheckContext, stopping: Iterable[Finding]) -> dict[str, StepOutcome]:
    """
    Return what becomes of the groups of a rescue that are as they are no longer; {} of other plans.

    `stopping` are the findings that block the plan. An offset that was committed since the plan was
    made needs no rescue if it has a retention timer of its own (see `planning.changes.rescue`).
    """
    if case.plan.intent is not Intent.RESCUE:
        return {}
    why = {
        finding.group_id: finding.why
        for finding in stopping
        if finding.group_id is not None and finding.rule in OF_ONE_GROUP
    }
    return {
        step.group_id: _outcome(case, step, why[step.group_id])
        for step in case.plan.steps
        if step.group_id in why
    }


def _outcome(case: CheckContext, step: Step, why: str) -> StepOutcome:
    refused = refused_step(step, f"left out: {why}")
    kept = dict(_kept(case, step)) if step.action is Action.COMMIT else {}
    results = tuple(kept.get(result.partition, result) for result in refused.results)
    if len(kept) < len(step.changes):
        return StepOutcome(step.group_id, step.action, refused.status, refused.why, results)
    return StepOutcome(step.group_id, step.action, ChangeStatus.DONE, "", results)


def _kept(case: CheckContext, step: Step) -> Iterator[tuple[TopicPartition, Result]]:
    """Yield the partitions whose offset was committed since the plan was made."""
    committed = case.committed(step.group_id)
    for change in step.changes:
        commit = committed.get(change.partition)
        at = commit.committed_at if commit else None
        if commit and at and at > (step.last_commit_at or case.plan.made_at):
            # What is as planned may be of the cut-off run that is being finished.
            by = "" if (step.group_id, change.partition) in case.made else " by a client"
            why = f"committed{by} at {at:%H:%M:%S} UTC, which resets its retention"
            found = Position.of(commit)
            yield change.partition, Result(change.partition, ChangeStatus.DONE, why, found)
