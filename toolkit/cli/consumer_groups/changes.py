"""The actions that change groups: without --execute they are only shown, as by Kafka's tool."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.change_flow import (
    BLOCKED,
    PARTLY,
    apply_decided,
    approval_parameters,
    approved,
    may_ask,
    print_blocked,
    print_findings,
    print_notices,
    print_outcome,
    print_unchanged,
    write_plan,
)
from toolkit.cli.command_target import only_group, opened
from toolkit.cli.consumer_groups.cluster_and_groups import chosen_by, cluster_of, command_target_of
from toolkit.cli.consumer_groups.flags import TARGETS
from toolkit.cli.consumer_groups.tool_tables import Cell, write_table
from toolkit.cli.output import after_a_change, echo_data, printable, write_frame
from toolkit.errors import Blocked, UsageError
from toolkit.model import Commit, TopicPartition
from toolkit.plan import ChangeStatus

if TYPE_CHECKING:
    from toolkit.cli.command_target import CommandTarget
    from toolkit.journeys.change.approval_parameters import ApprovalParameters
    from toolkit.journeys.change.change_outcome import ChangeOutcome
    from toolkit.journeys.change.planned_change import PlannedChange
    from toolkit.journeys.reset import RequestedTarget
    from toolkit.plan import Outcome, Plan, Position

COLUMNS = ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")
BY_TIME = ("to_datetime", "by_duration")
PARTITION_COLUMNS = ("TOPIC", "PARTITION", "STATUS")
Key = tuple[str, TopicPartition]
# Writes what is planned (no outcome) or what was done to stdout, in the tool's form.
Write = Callable[["Outcome | None"], None]


def delete(given: dict[str, Any]) -> int:
    from toolkit.journeys.delete_groups import delete_groups

    with opened(command_target_of(given), cluster_of(given)) as access:
        change = delete_groups(access, chosen_by(given))

    def write(outcome: Outcome | None) -> None:
        _write_deleted(change.plan, outcome, is_whole=change.is_whole)

    return _apply(change, write, given, asks=True)


def delete_offsets(given: dict[str, Any]) -> int:
    from toolkit.journeys import delete_offsets as journey
    from toolkit.journeys.change.group_choice import GroupChoice

    if len(set(given["groups"])) > 1:
        hint = "one call for each; 'offsetbook delete-offsets' takes several"
        raise UsageError("--delete-offsets takes one --group", hint=hint)
    with opened(command_target_of(given), cluster_of(given)) as access:
        choice = GroupChoice(tuple(given["groups"]), exact=True)
        change = journey.delete_offsets(access, choice, journey.OffsetChoice(given["topics"]))
    return _apply_by_partition(change, ("Would be deleted", "Successful"), given)


def pause(given: dict[str, Any]) -> int:
    """Pause partitions in the background."""
    from toolkit.journeys import pause as journey

    command = command_target_of(given)
    group = only_group(command)
    with opened(command, cluster_of(given)) as access:
        terms = {name: given[name] for name in ("pause_for", "prefer")}
        change = journey.pause(access, group, given["topics"], **terms)
    return _apply_by_partition(change, ("Would be paused", "Paused"), given)


def resume(given: dict[str, Any]) -> int:
    from toolkit.cli.changes.resume import FORCE_RULE
    from toolkit.journeys import resume as journey

    command = command_target_of(given)
    group = only_group(command)
    with opened(command, cluster_of(given)) as access:
        change = journey.resume(access, group, given["topics"])
    force = (FORCE_RULE,) if given["force"] else ()
    given = {**given, "overrides": (*given["overrides"], *force)}
    return _apply_by_partition(change, ("Would be resumed", "Resumed"), given)


def reset(given: dict[str, Any]) -> int:
    from toolkit.journeys import reset as journey

    to, topics = _target(given), given["topics"]
    with opened(command_target_of(given), cluster_of(given)) as access:
        change = journey.reset(
            access, chosen_by(given), to=to, topics=topics, new_topics=given["new_topics"]
        )
    offsets = _NewOffsets(change.plan, journey.committed_in_scope(change, to, topics))
    write = offsets.write_table
    if given["export"]:
        write = offsets.write_rows if _is_of_one_group(given) else offsets.write_group_rows
    return _apply(change, write, given)


def _write_deleted(plan: Plan, outcome: Outcome | None, *, is_whole: bool) -> None:
    """Print the deleted groups in the words of Kafka's tool; reasons for others go to stderr."""
    if outcome is None:
        if plan.group_ids:
            click.echo(f"These consumer groups would be deleted: {_listed(plan.group_ids)}")
        return
    done = [step.group_id for step in outcome.steps if step.status is ChangeStatus.DONE]
    if outcome.is_done and is_whole:
        click.echo(f"Deletion of requested consumer groups ({_listed(done)}) was successful.")
    elif done:
        click.echo(f"These consumer groups were deleted successfully: {_listed(done)}")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{printable(name)}'" for name in names)


def _apply_by_partition(
    change: PlannedChange, words: tuple[str, str], given: dict[str, Any]
) -> int:
    """Apply a plan; `words` say of a partition what would be, and what was done."""
    would, did = words

    def rows(outcome: Outcome | None) -> Iterator[Sequence[Cell]]:
        if outcome is None:
            yield from sorted((*one.partition, would) for _, one in change.plan.changes)
        for step in outcome.steps if outcome else ():
            for result in sorted(step.results, key=lambda result: result.partition):
                is_done = result.status is ChangeStatus.DONE
                yield (*result.partition, did if is_done else f"Error: {result.why}")

    def write(outcome: Outcome | None) -> None:
        click.echo()
        write_table(PARTITION_COLUMNS, rows(outcome))

    return _apply(change, write, given, asks=True)


def _apply(
    change: PlannedChange, write: Write, given: dict[str, Any], *, asks: bool = False
) -> int:
    """Show a plan, and apply it if it is approved; `asks`: at a terminal, without --execute."""
    from toolkit.journeys.change.decision import decide

    command = command_target_of(given)
    is_approved = bool(given["execute"] or given["approve"])
    only_shows = given["dry_run"] or not (is_approved or asks)
    decision = decide(change, _parameters(change, given, only_shows=only_shows))
    print_notices(change.notices, command.fleet)
    print_findings(change, command)
    code = 0 if change.is_whole else PARTLY
    is_blocked = bool(decision.blocked_by)
    is_last = is_blocked or only_shows or not change.plan.steps
    if _shows_plan(command, is_last=is_last, is_approved=is_approved, is_blocked=is_blocked):
        _show(change, write, command, None)
    if is_blocked:
        print_blocked(decision)
        return BLOCKED
    if is_last:
        if change.plan.steps and not given["dry_run"]:
            click.echo(
                "nothing was changed: add --execute to apply, or --dry-run to only look",
                err=True,
            )
        else:
            print_unchanged(decision)
        return code
    if not decision.parameters.approve and not may_ask(command):
        hint = "add --execute --reason TEXT, or --dry-run to only look"
        raise Blocked("not approved: nothing was changed", hint=hint)
    outcome = apply_decided(approved(decision, command), command)
    with after_a_change():
        _show(change, write, command, outcome)
    return print_outcome(outcome) or code


def _parameters(
    change: PlannedChange, given: dict[str, Any], *, only_shows: bool
) -> ApprovalParameters:
    """Return the approval: --execute approves what is shown, but does not say why."""
    parameters = approval_parameters(dict(given))
    if given["execute"] and not parameters.approve:
        parameters = replace(parameters, approve=change.fingerprint)
    return replace(parameters, dry_run=only_shows)


def _shows_plan(
    command: CommandTarget, *, is_last: bool, is_approved: bool, is_blocked: bool
) -> bool:
    """Whether the plan is written to stdout, and not only what was done by it."""
    if not is_approved:
        return True
    # For programs one frame: the outcome where there is one. The tool's table of what was to be
    # done and is blocked would look like one of what was done.
    return is_last and (command.output != "table" or not is_blocked)


def _show(
    change: PlannedChange, write: Write, command: CommandTarget, outcome: ChangeOutcome | None
) -> None:
    """Write the tool's table, or for programs one frame: the outcome where there is one."""
    if command.output == "table":
        write(outcome.outcome if outcome else None)
    elif outcome and outcome.outcome:
        write_frame(outcome.results, command.output)
    else:
        write_plan(change, command)


def _target(given: dict[str, Any]) -> RequestedTarget:
    from toolkit.journeys.reset import target

    (name,) = (name for name in TARGETS if given[name] is not None and given[name] is not False)
    text = "" if given[name] is True else str(given[name])
    past_end = given["past_end"] or ("latest" if name in BY_TIME else "keep")
    to = target(name.replace("_", "-"), text, past_end=past_end)
    if name == "from_file" and not to.names_groups and not _is_of_one_group(given):
        raise UsageError(
            f"offsets file {text} does not say which group each line is for",
            hint="write group,topic,partition,offset, or name one group",
        )
    return to


def _is_of_one_group(given: dict[str, Any]) -> bool:
    """Whether a CSV is of one group, and has three columns."""
    return len(set(given["groups"])) == 1


@dataclass(frozen=True)
class _NewOffsets:
    """A plan for some groups, and what is committed on the partitions that were meant by it."""

    plan: Plan
    committed: Mapping[Key, int]

    def write_table(self, outcome: Outcome | None) -> None:
        """Write the tool's table: what is planned, or with an outcome what was read back."""
        rows = self._offsets(outcome).items()
        click.echo()
        write_table(COLUMNS, [(group, *partition, offset) for (group, partition), offset in rows])

    def write_rows(self, outcome: Outcome | None) -> None:
        """Write the tool's CSV of one group."""
        self._write_csv(outcome, with_group=False)

    def write_group_rows(self, outcome: Outcome | None) -> None:
        """Write the tool's CSV of several groups."""
        self._write_csv(outcome, with_group=True)

    def _write_csv(self, outcome: Outcome | None, *, with_group: bool) -> None:
        from toolkit.storage.offsets_files import csv_text

        rows = self._offsets(outcome).items()
        commits = [Commit(group, *at, offset) for (group, at), offset in rows if offset is not None]
        echo_data(csv_text(commits, with_group=with_group))

    def _offsets(self, outcome: Outcome | None) -> dict[Key, int | None]:
        offsets: dict[Key, int | None] = dict(self.committed)
        if outcome is None:
            for step, change in self.plan.changes:
                offsets[step.group_id, change.partition] = _offset(change.after)
        else:
            for done in outcome.steps:
                for result in done.results:
                    offsets[done.group_id, result.partition] = _offset(result.found)
        return dict(sorted(offsets.items()))


def _offset(position: Position | None) -> int | None:
    return None if position is None else position.offset
