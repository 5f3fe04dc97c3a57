"""What every changing command does with its plan: show it, ask, apply, and tell the outcome."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

import click

from toolkit.cli.output import printable, write_frame
from toolkit.cli.reading import ProgressLine
from toolkit.cli.run_notices import tell_cut_off
from toolkit.errors import Blocked, ToolkitError

if TYPE_CHECKING:
    from datetime import datetime

    from toolkit.cli.change_command import CommandTarget, Planned
    from toolkit.model import Cluster, TopicPartition
    from toolkit.plan import Finding, Outcome, Plan, StepOutcome
    from toolkit.plan.approvals import Approval

T = TypeVar("T")
PARTLY, BLOCKED, FAILED = 4, 3, 1
NOT_UNDONE = frozenset({"rejoin", "hold", "release"})  # no offset is changed by them
MOST_TIMES = 500  # record times are looked up one by one


@dataclass(frozen=True)
class ApprovalOptions:
    """How a command was told to go on: not at all, by a fingerprint, or by whoever is asked."""

    dry_run: bool
    approve: str | None
    reason: str
    overrides: tuple[str, ...]

    OPTIONS: ClassVar = ("dry_run", "approve", "reason", "overrides")


def change(planned: Planned, asked: CommandTarget, consent: ApprovalOptions) -> None:
    """Show a plan, get it approved, apply it, and exit with what became of it."""
    from toolkit.planning.guardrails.registry import blocking, check_overrides

    consent = replace(consent, overrides=(*consent.overrides, *planned.overrides))
    check_overrides(consent.overrides)
    tell_cut_off(planned.cluster, state_folder(asked))
    plan = planned.plan
    findings = tell_findings(planned, asked)
    stopping = blocking(findings, consent.overrides)
    # One frame on stdout for programs: the outcome where there is one, else the plan.
    is_last = bool(stopping) or consent.dry_run or not plan.steps
    if asked.output == "table" or is_last:
        write_plan(planned, asked)
    if stopping:
        tell_blocked(stopping)
        sys.exit(BLOCKED)
    if not plan.steps:
        click.echo("nothing to do", err=True)
        return
    if consent.dry_run:
        click.echo(f"dry run: nothing was changed. Fingerprint: {plan.fingerprint}", err=True)
        return
    approval = get_approval(planned, consent)
    carry_out = planned.carry_out or _apply_and_tell
    sys.exit(carry_out(planned, asked, approval))


def _apply_and_tell(planned: Planned, asked: CommandTarget, approval: Approval) -> int:
    return tell(apply_approved(planned, asked, approval), asked)


def apply_approved(planned: Planned, asked: CommandTarget, approval: Approval) -> Outcome:
    """Apply an approved plan with progress, and return what became of it."""
    from toolkit.operate.apply import apply_plan

    return with_progress(partial(apply_plan, planned.plan), planned, asked, approval)


def with_progress(
    apply: Callable[..., T], planned: Planned, asked: CommandTarget, approval: Approval
) -> T:
    """Call what applies an approved plan to a cluster, and show how far it has come."""
    progress = ProgressLine(planned.cluster.name, visible=_is_visible(asked))
    total = len(planned.plan.steps)
    done = 0

    def on_step(_outcome: StepOutcome) -> None:
        nonlocal done
        done += 1
        progress.show(f"groups {done} of {total}")

    progress.show("looking again")
    try:
        return apply(
            _with_policy(planned, asked), approval, state=state_folder(asked), on_step=on_step
        )
    finally:
        progress.clear()


def tell(outcome: Outcome, asked: CommandTarget) -> int:
    """Write an outcome to stdout and stderr, and return the exit code."""
    from toolkit.planning.frames.outcome_frame import outcome_frame

    frame = outcome_frame(outcome)
    if asked.output == "table":
        frame = frame[frame["status"] != "done"]
    if asked.output != "table" or len(frame):
        write_frame(frame, asked.output)
    return tell_outcome(outcome)


def tell_outcome(outcome: Outcome) -> int:
    """Say an outcome and return the exit code: 0 done, 4 partly, 1 where nothing was changed."""
    from toolkit.operate.apply import in_words

    for step in outcome.steps:
        if step.why:
            name = printable(step.group_id)
            click.echo(f"{name}: {step.status}: {printable(step.why)}", err=True)
    click.echo(f"{in_words(outcome)}, read back from the cluster", err=True)
    if outcome.changed_anything and any(step.action not in NOT_UNDONE for step in outcome.steps):
        click.echo(f"run {outcome.run_id}; 'offsetbook undo {outcome.run_id}' undoes it", err=True)
    if outcome.is_done:
        return 0
    return PARTLY if outcome.changed_anything else FAILED


def write_plan(planned: Planned, asked: CommandTarget) -> None:
    """Write a plan's changes to stdout; for people, with the times of the records there."""
    from toolkit.planning.frames.review_frame import review_frame

    times = _record_times(planned) if asked.output == "table" else {}
    frame = review_frame(planned.plan, times)
    if asked.output == "table" and planned.plan.intent in {"pause", "resume"}:
        frame = frame[["group", "action", "topic", "partition", "why"]]  # no offset is changed
    write_frame(frame, asked.output)


def _with_policy(planned: Planned, asked: CommandTarget) -> Cluster:
    from toolkit.cli.facts import under_fleet_policy

    return under_fleet_policy(planned.cluster, planned.facts.cluster_id, asked.fleet)


def tell_findings(planned: Planned, asked: CommandTarget) -> tuple[Finding, ...]:
    """Say on stderr what is to be known about a plan, and return it."""
    from toolkit.operate.apply import check_plan
    from toolkit.planning.frames.review_frame import summary

    findings = check_plan(planned.plan, planned.facts, _with_policy(planned, asked))
    for finding in findings:
        click.echo(_finding_line(finding), err=True)
    if not asked.quiet:
        click.echo(f"{printable(planned.plan.request)}: {summary(planned.plan)}", err=True)
    return findings


def _finding_line(finding: Finding) -> str:
    about = [printable(finding.group_id)] if finding.group_id else []
    about += [printable(finding.topic)] if finding.topic else []
    about += [f"partition {finding.partition}"] if finding.partition is not None else []
    colour = "red" if finding.severity == "block" else "yellow"
    head = click.style(f"{finding.severity}: {finding.rule}", fg=colour)
    return f"{head}: {', '.join(about)}{': ' if about else ''}{printable(finding.why)}"


def _record_times(planned: Planned) -> dict[tuple[TopicPartition, int], datetime]:
    """Return when the records were written that offsets lead to, where there are not too many."""
    from toolkit.kafka_io.logs.record_times import read_record_times

    logs = planned.facts.logs
    wanted = {
        (change.partition, position.offset)
        for _, change in planned.plan.changes
        for position in (change.before, change.after)
        if position and (log := logs.get(change.partition)) and log.holds(position.offset)
    }
    if len(wanted) > MOST_TIMES:
        return {}
    try:
        return read_record_times(planned.cluster, wanted)
    except ToolkitError as exc:
        click.echo(f"when the records were written is not shown: {exc}", err=True)
        return {}


def tell_blocked(stopping: Iterable[Finding]) -> None:
    """Say which rules stop a plan, and how to go on where all of them may be overridden."""
    from toolkit.planning.guardrails.registry import OVERRIDABLE

    rules = sorted({finding.rule for finding in stopping})
    said = f"blocked by {', '.join(rules)}: nothing was changed"
    if OVERRIDABLE.issuperset(rules):
        said += f". Try: if that is meant, {' '.join(f'--override {rule}' for rule in rules)}"
    click.echo(said, err=True)


def get_approval(planned: Planned, consent: ApprovalOptions) -> Approval:
    """Return the approval that was given, or is given now where there is a terminal to ask at."""
    from toolkit.plan.approvals import Approval, is_reason

    plan = planned.plan
    fingerprint, reason = consent.approve, consent.reason
    if fingerprint is None:
        _ask_for_name(plan)
        fingerprint = plan.fingerprint
    if not is_reason(reason):
        if not has_terminal():
            raise Blocked("no reason was given: nothing was changed", hint="add --reason TEXT")
        reason = click.prompt("Why (goes into the audit log)", err=True)
    return Approval(fingerprint, reason, consent.overrides)


def _ask_for_name(plan: Plan) -> None:
    """Have what is about to be changed typed; raises Blocked where that is not done."""
    if not has_terminal():
        raise Blocked(
            "not approved: nothing was changed",
            hint=f"--approve {plan.fingerprint} --reason TEXT, or --dry-run to only look",
        )
    groups = plan.group_ids
    shown = printable(groups[0] if len(groups) == 1 else f"{len(groups)} groups")
    typed = click.prompt(f"Type '{shown}' to apply this", default="", show_default=False, err=True)
    if typed != shown:
        raise Blocked(f"{typed!r} is not {shown!r}: nothing was changed")


def has_terminal() -> bool:
    """Whether somebody is there to be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def write_plan_file(planned: Planned, asked: CommandTarget, *, out: Path | None) -> None:
    """Show a plan and write it to a file, from which it can be applied."""
    from toolkit.planning.guardrails.registry import OVERRIDABLE, blocking
    from toolkit.storage import plan_files

    tell_cut_off(planned.cluster, state_folder(asked))
    findings = tell_findings(planned, asked)
    write_plan(planned, asked)
    fingerprint = planned.plan.fingerprint
    path = out or Path(f"plan-{fingerprint}.json")
    plan_files.write_plan(path, planned.plan)
    click.echo(f"nothing was changed; the plan is in {path}", err=True)
    rules = {finding.rule for finding in blocking(findings, ())}
    if final := sorted(rules - OVERRIDABLE):
        click.echo(f"it cannot be applied as it is: {', '.join(final)}", err=True)
        return
    overrides = "".join(f" --override {rule}" for rule in sorted(rules))
    words = f"offsetbook apply {path} --approve {fingerprint}{overrides} --reason TEXT"
    click.echo(words, err=True)


def state_folder(asked: CommandTarget) -> Path:
    """Return the folder of undo records and the audit log."""
    from toolkit.storage.state_folder import state_dir

    return state_dir(asked.fleet)


def _is_visible(asked: CommandTarget) -> bool:
    return not asked.quiet and sys.stderr.isatty()
