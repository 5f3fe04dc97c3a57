"""Verify from `__consumer_offsets` that a rescue reset the retention timers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from toolkit.model import Commit, Snapshot, TopicPartition
from toolkit.plan import Action, ChangeStatus, Result, StepOutcome

Key = tuple[str, TopicPartition]


def verify_retention_reset(
    outcomes: Sequence[StepOutcome], *, before: Snapshot, after: Snapshot
) -> tuple[StepOutcome, ...]:
    """
    Mark steps as failed whose retention timers did not change between two snapshots.

    Retention counts from the time a classic group became Empty, else from each commit (KIP-211,
    measured on Kafka 4.3).
    """
    committed = _commit_times(before), _commit_times(after)
    emptied = _empty_since(before), _empty_since(after)
    checked = []
    for outcome in outcomes:
        if outcome.status is not ChangeStatus.DONE:
            checked.append(outcome)
        elif outcome.action is Action.REJOIN:
            why = _stood_still(emptied[0].get(outcome.group_id), emptied[1].get(outcome.group_id))
            results = tuple(_failed(result, why) for result in outcome.results)
            status = ChangeStatus.FAILED if why else ChangeStatus.DONE
            checked.append(replace(outcome, status=status, why=why, results=results))
        else:
            results = tuple(
                _failed(result, _stood_still(committed[0].get(key), committed[1].get(key)))
                for result in outcome.results
                for key in [(outcome.group_id, result.partition)]
            )
            done = all(result.status is ChangeStatus.DONE for result in results)
            status = ChangeStatus.DONE if done else ChangeStatus.FAILED
            checked.append(replace(outcome, status=status, results=results))
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
    def key(commit: Commit) -> Key:
        return commit.group_id, TopicPartition(commit.topic, commit.partition)

    return {key(commit): commit.committed_at for commit in snapshot.commits}


def _empty_since(snapshot: Snapshot) -> dict[str, datetime | None]:
    return {group.group_id: group.empty_since for group in snapshot.groups}
