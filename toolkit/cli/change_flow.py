"""Shared flow of changing commands: show the plan, get approval, apply, print the result."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.output import (
    PARTLY,
    STDOUT,
    after_a_change,
    echo_with_commands,
    in_message,
    name_of,
    printable,
    printable_name,
    write_frame,
    write_output_file,
)
from toolkit.cli.progress_line import ProgressLine
from toolkit.errors import Blocked, UsageError

if TYPE_CHECKING:
    from toolkit.cli.command_target import CommandPlan, ToolForm
    from toolkit.cli.options import CommandScope
    from toolkit.journeys.change.approval_parameters import ApprovalParameters
    from toolkit.journeys.change.change_outcome import ChangeOutcome
    from toolkit.journeys.change.decision import Decision
    from toolkit.journeys.change.planned_change import PlannedChange
    from toolkit.journeys.change.run_notices import RunNotice
    from toolkit.plan import Finding, Plan, StepOutcome

BLOCKED, FAILED = 3, 1
# What gets room first on a narrow terminal.
FIRST = (
    *("group", "action", "topic", "partition", "before", "after", "distance", "time_distance"),
    "why",
)
# What is done after each step of a live move.
AFTER = {
    "first-commit": "committed; pausing",
    "hold": "paused; moving the offsets",
    "move": "moved; resuming",
    "release": "resumed; waiting until the application commits from the new offsets",
}


def approval_parameters(given: dict[str, Any]) -> ApprovalParameters:
    """
    Take the options by which a change is approved out of those that were given.

    Raises UsageError for an empty --approve: a script whose variable is empty approves nothing.
    """
    from toolkit.journeys.change.approval_parameters import ApprovalParameters

    if given["approve"] == "":
        raise UsageError("--approve is empty", hint="give the fingerprint of the plan")
    return ApprovalParameters(
        given.pop("dry_run"),
        given.pop("approve") or "",
        # Else what is set for all commands at once.
        given.pop("reason") or os.environ.get("OFFSETBOOK_REASON", ""),
        given.pop("overrides"),
    )


def change(planned: CommandPlan, command: CommandScope, parameters: ApprovalParameters) -> int:
    """Show a plan, get it approved, apply it, and return the exit code of the outcome."""
    from toolkit.journeys.change.decision import decide

    made = planned.change
    overrides = (*parameters.overrides, *planned.overrides)
    decision = decide(made, replace(parameters, overrides=overrides))
    print_notices(made.notices, command.fleet)
    print_findings(made, command)
    is_last = decision.approval is None and (parameters.dry_run or not decision.wants_approval)
    _write_planned(planned, decision, command, is_last=is_last)
    if decision.blocked_by:
        _print_blocked(decision)
        return BLOCKED
    if is_last:
        _print_unchanged(decision, planned.tool)
        return 0 if made.is_whole else PARTLY
    decision = _approved(decision, command, planned.tool)
    if planned.carry_out:
        return planned.carry_out(decision, command)
    return print_result(apply_decided(decision, command), command, planned.tool)


def _write_planned(
    planned: CommandPlan, decision: Decision, command: CommandScope, *, is_last: bool
) -> None:
    is_approved = bool(decision.parameters.approve)
    if planned.tool and command.output == "table":
        # The tool's table of a blocked plan would look like one of an applied plan.
        if not is_approved or (is_last and not decision.blocked_by):
            planned.tool.write_table(None)
    # One frame on stdout for programs: the outcome where there may be one, else the plan.
    elif command.output == "table" or is_last or not is_approved:
        write_plan(planned.change, command)


def _print_unchanged(decision: Decision, tool: ToolForm | None) -> None:
    """Say why nothing was changed although nothing blocks."""
    message = decision.message
    if tool and tool.is_only_shown and decision.wants_approval:
        message = "nothing was changed: add --execute to apply, or --dry-run to only look"
    elif decision.wants_approval:
        message += f". Fingerprint: {decision.plan.fingerprint}"
    click.echo(message, err=True)


def apply_decided(
    decision: Decision, command: CommandScope, *, attached: bool = False
) -> ChangeOutcome:
    """Apply an approved plan and show how far it has come; see `Decision.apply`."""
    done, total = 0, len(decision.plan.steps)

    def on_step(outcome: StepOutcome) -> None:
        nonlocal done
        done += 1
        is_move = decision.plan.intent == "move"
        progress.show(AFTER[outcome.action] if is_move else f"groups {done} of {total}")

    cluster = decision.change.access.cluster.name
    with ProgressLine(cluster, visible=command.is_watched) as progress:
        progress.show("looking again")
        return decision.apply(on_step=on_step, attached=attached)


def print_result(
    outcome: ChangeOutcome, command: CommandScope, tool: ToolForm | None = None
) -> int:
    """Write an outcome to stdout and stderr, and return the exit code."""
    with after_a_change():
        frame = outcome.results
        if command.output != "table":
            write_frame(frame, command.output)
        elif tool:
            tool.write_table(outcome.outcome)
        elif len(rest := frame[frame["status"] != "done"]):
            write_frame(rest, command.output, is_whole=True)
    return _print_outcome(outcome)


def _print_outcome(outcome: ChangeOutcome) -> int:
    """Say an outcome and return the exit code: 0 done, 4 partly, 1 where nothing was changed."""
    from toolkit.report.run_command import offsetbook_command

    fleet = outcome.change.access.fleet_file
    with after_a_change():
        print_notices(outcome.notices, fleet)
        if outcome.outcome is None:
            return BLOCKED
        for step in outcome.outcome.steps:
            if step.why:
                name = printable_name(step.group_id)
                click.echo(f"{name}: {step.status}: {printable(step.why)}", err=True)
        click.echo(outcome.outcome.verified_summary, err=True)
        if outcome.can_be_undone:
            undo = offsetbook_command("undo", outcome.run_id, fleet_file=fleet)
            echo_with_commands(f"run {outcome.run_id}; {in_message(undo)} undoes it")
    if outcome.is_done:
        return 0 if outcome.change.is_whole else PARTLY
    return PARTLY if outcome.changed_anything else FAILED


def write_plan(change: PlannedChange, command: CommandScope) -> None:
    """Write a plan's changes to stdout; for people, the columns that they need."""
    if command.output == "table":
        main = change.review[change.main_columns]
        write_frame(main, command.output, important=FIRST, is_whole=True)
    else:
        write_frame(change.review, command.output)
    if change.why_untimed:
        click.echo(f"the times of the records are not shown: {change.why_untimed}", err=True)


def print_notices(notices: Iterable[RunNotice], fleet: Path | None) -> None:
    from toolkit.report.run_command import offsetbook_command

    for notice in notices:
        way_on = ""
        if notice.run_id:
            undo = offsetbook_command("undo", notice.run_id, fleet_file=fleet)
            way_on = f".\nTo undo it: {in_message(undo)}"
        if notice.fingerprint:
            approval = ("--approve", notice.fingerprint, "--reason", "TEXT")
            finish = offsetbook_command(
                "apply", "--run", notice.run_id, *approval, fleet_file=fleet
            )
            way_on += f"; finish it with {in_message(finish)}"
        echo_with_commands(f"{printable(notice.words)}{way_on}")


def print_findings(change: PlannedChange, command: CommandScope) -> None:
    if change.findings:
        click.echo("\n".join(map(_finding_line, change.findings)), err=True)
    for group in change.skipped:
        click.echo(f"skipped: {printable_name(group.group_id)}: it is {group.state}", err=True)
    if not command.quiet:
        click.echo(f"{printable(change.plan.request)}: {change.summary}", err=True)


def _finding_line(finding: Finding) -> str:
    about = [] if finding.group_id is None else [printable_name(finding.group_id)]
    about += [printable(finding.topic)] if finding.topic else []
    about += [f"partition {finding.partition}"] if finding.partition is not None else []
    colour = "red" if finding.severity == "block" else "yellow"
    head = click.style(f"{finding.severity}: {finding.rule}", fg=colour)
    return f"{head}: {', '.join(about)}{': ' if about else ''}{printable(finding.why)}"


def _print_blocked(decision: Decision) -> None:
    rules = " ".join(f"--override {rule}" for rule in decision.overrides_offered)
    ways = [f"if this is intended, add {rules}"] if rules else decision.alternatives
    way_on = f". Try: {'; '.join(ways)}" if ways else ""
    click.echo(f"{decision.message}{way_on}", err=True)


def _approved(decision: Decision, command: CommandScope, tool: ToolForm | None) -> Decision:
    """
    Return the decision with the approval that was given, or is given now at a terminal.

    Raises Blocked where it is not given, or is one of another plan.
    """
    from toolkit.plan import same_fingerprint
    from toolkit.plan.approvals import lacks_reason

    plan, reason = decision.plan, decision.parameters.reason
    if not decision.parameters.approve:
        flag = "--execute" if tool else f"--approve {plan.fingerprint}"
        _ask_for_name(plan, command, flag)
    elif not same_fingerprint(decision.parameters.approve, plan.fingerprint):
        raise Blocked(decision.message, hint="look at the plan again and approve what it is now")
    if lacks_reason(reason, decision.change.cluster.policy):
        if not has_terminal():
            raise Blocked(
                "no reason given: nothing was changed",
                hint="add --reason TEXT, or set OFFSETBOOK_REASON; 'reason: optional' in the fleet "
                "file makes it optional for a cluster",
            )
        reason = _answer("Reason (for the audit log)")
    return decision.approved_by_hand(reason)


def _ask_for_name(plan: Plan, command: CommandScope, flag: str) -> None:
    """Ask to type the names of what changes, as no `flag` approves it; raises Blocked."""
    if not _may_ask(command):
        hint = f"add {flag} --reason TEXT, or --dry-run to only look"
        raise Blocked("not approved: nothing was changed", hint=hint)
    groups = plan.group_ids
    shown = printable_name(groups[0]) if len(groups) == 1 else f"{len(groups)} groups"
    typed = _answer(f"Type '{shown}' to apply this", default="", show_default=False)
    if typed != shown:
        raise Blocked(f"you typed {typed!r}, expected {shown!r}: nothing was changed")


def _answer(question: str, **options: Any) -> str:
    """Return what is typed; raises Blocked for Ctrl-C, and for the end of the input."""
    try:
        return str(click.prompt(question, err=True, **options))
    except click.Abort:
        click.echo(err=True)
        raise Blocked("not approved: nothing was changed") from None


def _may_ask(command: CommandScope) -> bool:
    """Whether a person can answer, and has the plan as a table on the same terminal."""
    return command.output == "table" and sys.stdout.isatty() and has_terminal()


def has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def write_plan_file(change: PlannedChange, command: CommandScope, *, out: Path | None) -> None:
    from toolkit.report.run_command import offsetbook_command
    from toolkit.storage.plan_files import plan_text

    print_notices(change.notices, command.fleet)
    print_findings(change, command)
    path = out or Path(f"plan-{change.fingerprint}.json")
    if path != STDOUT:
        write_plan(change, command)
    write_output_file(path, plan_text(change.plan))
    click.echo(f"plan written to {name_of(path)}; nothing was changed", err=True)
    decision = change.decide()
    if decision.blocked_by and not decision.overrides_offered:
        click.echo(
            f"this plan cannot be applied; not overridable: {', '.join(decision.blocked_by)}",
            err=True,
        )
        return
    approval = ["--approve", change.fingerprint]
    for rule in decision.overrides_offered:
        approval += ["--override", rule]
    plan_file = "PLAN_FILE" if path == STDOUT else str(path)
    words = (plan_file, *approval, "--reason", "TEXT")
    click.echo(offsetbook_command("apply", *words, fleet_file=command.fleet), err=True)
