"""
Checks of a rescue before and after its steps.

A group to which a client commits again is left out, so that it does not block the rescue of the
others. Whether retention timers were reset is read from `__consumer_offsets`: the response to a
commit does not say it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from toolkit.model import Commit, Snapshot, TopicPartition
from toolkit.model.commit_columns import with_own_expiry
from toolkit.operate.read_back import refused_step
from toolkit.plan import Action, ChangeStatus, Finding, Intent, Position, Result, Step, StepOutcome
from toolkit.planning.guardrails.check_context import CheckContext

Key = tuple[str, TopicPartition]
OF_ONE_GROUP = frozenset({"facts-moved", "group-live", "keeps-committing", "unreadable"})


def verify_retention_reset(
    outcomes: Sequence[StepOutcome], *, before: Snapshot, after: Snapshot
) -> tuple[StepOutcome, ...]:
    """
    Mark steps as failed whose retention timers did not change between two snapshots.

    Retention counts from the time a classic group became Empty, else from each commit (KIP-211,
    measured on Kafka 4.3); a time that a client chose with the commit counts alone.
    """
    committed = _commit_times(before), _commit_times(after)
    emptied = _empty_since(before), _empty_since(after)
    chosen = {
        _key(commit): (
            f"it still expires at {commit.expires_at:%Y-%m-%d %H:%M:%S} UTC, as a client chose"
        )
        for commit in with_own_expiry(after.commits)
    }
    checked = []
    for outcome in outcomes:
        if outcome.status is not ChangeStatus.DONE:
            checked.append(outcome)
            continue
        keys = [(outcome.group_id, result.partition) for result in outcome.results]
        why = outcome.why
        if outcome.action is Action.REJOIN:
            why = _stood_still(emptied[0].get(outcome.group_id), emptied[1].get(outcome.group_id))
            whys = [why or chosen.get(key, "") for key in keys]
        else:
            whys = [_stood_still(committed[0].get(key), committed[1].get(key)) for key in keys]
        results = tuple(map(_failed, outcome.results, whys))
        is_done = all(result.status is ChangeStatus.DONE for result in results)
        status = ChangeStatus.DONE if is_done else ChangeStatus.FAILED
        checked.append(replace(outcome, status=status, why=why, results=results))
    return tuple(checked)


def _stood_still(before: datetime | None, after: datetime | None) -> str:
    if after is None:
        return "its retention timestamp could not be read from __consumer_offsets"
    if before is None:
        return "not verifiable: its retention timestamp was unknown before"
    if after > before:
        return ""
    return f"its retention timestamp did not change: {before:%Y-%m-%d %H:%M:%S} UTC"


def _failed(result: Result, why: str) -> Result:
    return replace(result, status=ChangeStatus.FAILED, why=why) if why else result


def _commit_times(snapshot: Snapshot) -> dict[Key, datetime | None]:
    return {_key(commit): commit.committed_at for commit in snapshot.commits}


def _key(commit: Commit) -> Key:
    return commit.group_id, TopicPartition(commit.topic, commit.partition)


def _empty_since(snapshot: Snapshot) -> dict[str, datetime | None]:
    return {group.group_id: group.empty_since for group in snapshot.groups}


def left_out(case: CheckContext, stopping: Iterable[Finding]) -> dict[str, StepOutcome]:
    """
    Return the results for groups of a rescue that have changed since, or cannot be read now.

    {} for other plans. `stopping` are the findings that block the plan. An offset that was
    committed since the plan was made needs no rescue if it has its own retention timer (see
    `planning.changes.rescue`).
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
    results_since = dict(_commits_since(case, step)) if step.action is Action.COMMIT else {}
    results = tuple(results_since.get(result.partition, result) for result in refused.results)
    if len(results_since) < len(step.changes):
        return StepOutcome(step.group_id, step.action, refused.status, refused.why, results)
    return StepOutcome(step.group_id, step.action, ChangeStatus.DONE, "", results)


def _commits_since(case: CheckContext, step: Step) -> Iterator[tuple[TopicPartition, Result]]:
    """Yield the partitions whose offset was committed since the plan was made."""
    committed = case.committed(step.group_id)
    for change in step.changes:
        commit = committed.get(change.partition)
        at = commit.committed_at if commit else None
        if commit and at and at > (step.last_commit_at or case.plan.made_at):
            # A commit as planned may be of the cut-off run that is being finished.
            by = "" if (step.group_id, change.partition) in case.made else " by a client"
            why = f"committed{by} at {at:%H:%M:%S} UTC, which resets its retention"
            found = Position.of(commit)
            yield change.partition, Result(change.partition, ChangeStatus.DONE, why, found)
