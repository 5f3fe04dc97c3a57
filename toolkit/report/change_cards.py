"""Cards about a change: the plan and its findings, the decision, and the outcome."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from toolkit.model import Snapshot
from toolkit.model.times import format_duration
from toolkit.plan import HOLD_INTENTS, Finding, Outcome, Plan
from toolkit.planning.frames.plan_frames import (
    findings_frame,
    outcome_frame,
    outcome_reasons,
    review_columns,
)
from toolkit.planning.frames.plan_summary import summary
from toolkit.planning.frames.snapshot_frames import groups_frame, offsets_frame
from toolkit.planning.lag.lag import with_lag
from toolkit.report.audit_rows import run_rows
from toolkit.report.display import is_headless
from toolkit.report.frame_text import frame_text
from toolkit.report.notices import NoticeTone, show_notice
from toolkit.report.plan_chart import show_plan_chart
from toolkit.report.safe_names import sentence, visible
from toolkit.report.tables import show_empty, show_table
from toolkit.storage.audit import AuditEntry

if TYPE_CHECKING:
    import pandas as pd

TO_APPROVE = (
    "To apply exactly this, set dry_run = False, approve and reason{} among the parameters and run "
    "all cells again"
)
OR_RUN = "; or run this command with a reason of your own:"
# What a plan shows stays on the page when it has been applied by hand.
AS_PLANNED = " when this was planned"
GROUP_COLUMNS = ["group", "type", "state", "members", "subscribed"]
RECORD_COLUMNS = ["run", "at", "who", "request", "reason", "overrides", "result"]


def show_change(
    plan: Plan, read: Sequence[Snapshot], findings: Sequence[Finding], review: pd.DataFrame
) -> None:
    """
    Show the groups as they were read, what a plan changes, and what the guard rails found.

    `read` are the snapshots that it was made from, `review` is its `review_frame`.
    """
    for facts in read:
        where = "" if len(read) == 1 else f" of {facts.cluster}"
        title = f"The groups{where}{AS_PLANNED}"
        shown = groups_frame(facts)[GROUP_COLUMNS]
        show_table(shown, caption_text=title, empty_text="No matching group.")
    if plan.intent in HOLD_INTENTS:
        _show_partitions(read[-1])
    else:
        show_plan_chart(plan, read[-1])
    show_table(
        review[list(review_columns(plan.intent))],
        caption_text=f"{visible(plan.request)}: {summary(plan)}",
        empty_text="No changes.",
    )
    show_table(
        findings_frame(findings, cluster=plan.cluster).drop(columns="cluster"),
        caption_text="Findings",
        empty_text="No findings.",
    )


def _show_partitions(facts: Snapshot) -> None:
    """Show who reads each partition of a group, and how far behind it is."""
    offsets = with_lag(offsets_frame(facts))
    show_table(
        offsets[["topic", "partition", "owner", "committed", "log_end", "lag"]],
        caption_text=f"Partitions{AS_PLANNED}",
        empty_text="No committed offsets.",
    )


def change_text(plan: Plan, findings: Sequence[Finding], review: pd.DataFrame) -> str:
    """Return the same as text for a prompt."""
    table = frame_text(review[list(review_columns(plan.intent))], max_rows=20)
    lines = [f"{f.severity}: {f.rule}: {f.why}" for f in findings]
    head = f"{plan.request} on {plan.cluster}: {summary(plan)}"
    parts = [head, *([table] if len(review) else []), *lines, f"Fingerprint: {plan.fingerprint}"]
    return "\n".join(visible(line) for part in parts for line in part.splitlines())


def show_notices(notices: Iterable[tuple[str, str]]) -> None:
    """Show what is to be known of earlier runs: a sentence each, and the command that undoes it."""
    for words, command in notices:
        line = "To undo it:" if command else ""
        show_notice(sentence(words), [line], command=command, tone=NoticeTone.WARN)


def show_newest_run(entries: Sequence[AuditEntry], now: datetime) -> None:
    """Show the status of the operator's newest run, from its entries in the audit log."""
    table = run_rows(entries)
    (row,) = (dict(zip(table.columns, cells, strict=True)) for cells in table.rows)
    began = f"{row['at']:%H:%M:%S} UTC, {format_duration(now - row['at'])} ago"
    lines = [f"Run {row['run']}, begun at {began}: {sentence(row['request'])}."]
    is_over = len(entries) > 1
    if not is_over:
        lines.append("Run this cell again to see whether it has ended.")
    title = f"Your latest change on {row['cluster']}: {row['result']}"
    show_notice(title, lines, tone=NoticeTone.NOTE if is_over else NoticeTone.WARN)


def show_approved(message: str, plan: Plan, reason: str) -> None:
    """Show that a plan is approved, and why."""
    lines = [f"Fingerprint: {plan.fingerprint}", f"Why: {reason}"]
    show_notice(sentence(message), lines, tone=NoticeTone.GOOD)


def show_approval_missing(
    message: str, plan: Plan, command: str, *, is_refused: bool, chosen: Mapping[str, object]
) -> None:
    """Show that an approval is missing, and how to give it; `chosen` are no parameters yet."""
    tone = NoticeTone.WARN if is_refused else NoticeTone.NOTE
    also = "".join(f", {name} = {value!r}" for name, value in chosen.items())
    lines = [f"Fingerprint: {plan.fingerprint}"]
    lines.append(TO_APPROVE.format(also) + (OR_RUN if command else "."))
    show_notice(sentence(message), lines, command=command, tone=tone)


def show_blocked(message: str, overridable: Sequence[str], alternatives: Sequence[str]) -> None:
    """Show which rules block a plan, and what can be done: an override, or something else."""
    way_out = "This cannot be overridden: change what is asked for."
    if overridable:
        rules = list(overridable)
        way_out = f"If that is intended, set overrides = {rules}; the plan still needs approval."
        if not is_headless():
            way_out = f"If that is intended, tick it below, or set overrides = {rules}."
    show_notice(sentence(message), [*map(sentence, alternatives), way_out], tone=NoticeTone.WARN)


def show_nothing_to_do(message: str) -> None:
    """Show that there is nothing to do."""
    show_notice(sentence(message), tone=NoticeTone.GOOD)


def show_outcome(outcome: Outcome | None) -> None:
    """Show the result of every change, as read back; changes that were not done come first."""
    if outcome is None:
        show_empty("Nothing was applied: nothing to verify.")
        return
    tone = NoticeTone.GOOD if outcome.is_done else NoticeTone.BAD
    whys = outcome_reasons(outcome)
    show_notice(f"{outcome.summary}, read back from the cluster", whys, tone=tone)
    frame = outcome_frame(outcome)
    not_done_first = frame.assign(done=frame["status"] == "done").sort_values("done", kind="stable")
    show_table(not_done_first.drop(columns="done"), caption_text="Result of each change")


def show_record(runs: pd.DataFrame) -> None:
    """Show a run of the audit log; `runs` is a `runs_frame` with that run, or none."""
    show_table(
        runs[RECORD_COLUMNS],
        caption_text="Audit log entry",
        empty_text="No audit entry: nothing was applied.",
    )


def show_undo(run_id: str, command: str, *, has_changed: bool) -> None:
    """Show how a run is undone; without a command there is nothing to undo."""
    if not command:
        what = "No committed offset" if has_changed else "Nothing"
        show_empty(f"{what} was changed, so there is nothing to undo.")
        return
    line = "Dry run of the undo; its report contains the command that applies it:"
    show_notice(f"Run {run_id} can be undone", [line], command=command)


def show_resume(lasts: str, command: str) -> None:
    """Show how a pause is ended; `lasts` says how long it would last by itself."""
    line = (
        f"The pause continues in the background {lasts}. Dry run of the resume; its report "
        "contains the command that applies it:"
    )
    show_notice("Partitions are paused", [line], command=command)
