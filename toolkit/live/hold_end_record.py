"""Record in the audit log that a hold ended without a resume command."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

from toolkit.model import GroupState
from toolkit.model.names import shown_name
from toolkit.plan import (
    Action,
    Change,
    ChangeStatus,
    Intent,
    Outcome,
    Plan,
    Result,
    Step,
    StepOutcome,
)
from toolkit.storage import audit
from toolkit.storage.hold_files import HoldRecord
from toolkit.storage.undo_records import new_run_id


def record_end(
    path: Path,
    record: HoldRecord,
    words: str,
    at: datetime,
    *,
    status: ChangeStatus = ChangeStatus.DONE,
) -> None:
    """
    Record the end of a hold as a run of its own; `path` is its hold file.

    Raises StateFileError if the audit log cannot be written.
    """
    state = path.parents[2]
    plan = Plan(
        intent=Intent.RESUME,
        request=f"end of the hold of run {record.run_id} on {shown_name(record.group_id)}",
        cluster=record.cluster.name,
        cluster_id=record.cluster_id,
        made_at=at,
        steps=(
            Step(
                record.group_id,
                Action.RELEASE,
                tuple(Change(partition, None, None) for partition in record.held),
                type=record.type,
                state=GroupState.STABLE,
            ),
        ),
    )
    run_id = new_run_id(at, plan.fingerprint)
    run = audit.RunInfo(run_id, record.note.who, record.note.host, words)
    intent = audit.intent_entry(plan, run, at)
    audit.append(state, intent)
    results = tuple(Result(partition, status) for partition in record.held)
    step = StepOutcome(record.group_id, Action.RELEASE, status, words, results)
    outcome = Outcome(run_id, plan.fingerprint, at, at, (step,))
    audit.append(state, replace(audit.outcome_entry(intent, outcome), seq=0))
