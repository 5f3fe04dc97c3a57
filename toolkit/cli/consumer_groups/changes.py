"""The actions that change groups: without --execute they are only shown, as by Kafka's tool."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli import change_flow
from toolkit.cli.change_flow import approval_parameters
from toolkit.cli.changes.reset import target_of
from toolkit.cli.changes.resume import FORCE_RULE
from toolkit.cli.command_target import CommandPlan, ToolForm, only_group
from toolkit.cli.consumer_groups.cluster_and_groups import (
    chosen_by,
    exact_names,
    opened_cluster,
    tool_scope,
)
from toolkit.cli.consumer_groups.tool_tables import Cell, write_table
from toolkit.cli.output import echo_data, printable
from toolkit.errors import UsageError
from toolkit.model import Commit, TopicPartition
from toolkit.plan import ChangeStatus

if TYPE_CHECKING:
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

    with opened_cluster(given) as access:
        change = delete_groups(access, chosen_by(given))
    write = partial(_write_deleted, change.plan, is_whole=change.is_whole)
    return _apply(change, write, given, asks=True)


def delete_offsets(given: dict[str, Any]) -> int:
    from toolkit.journeys import delete_offsets as journey

    if len(set(given["groups"])) > 1:
        hint = "one call for each; 'offsetbook delete-offsets' takes several"
        raise UsageError("--delete-offsets takes one --group", hint=hint)
    with opened_cluster(given) as access:
        which = journey.OffsetChoice(given["topics"])
        change = journey.delete_offsets(access, chosen_by(given), which)
    return _apply_by_partition(change, ("Would be deleted", "Successful"), given)


def pause(given: dict[str, Any]) -> int:
    """Pause partitions in the background."""
    from toolkit.journeys import pause as journey

    group = only_group(exact_names(given["groups"]))
    with opened_cluster(given) as access:
        terms = {name: given[name] for name in ("pause_for", "prefer")}
        change = journey.pause(access, group, given["topics"], **terms)
    return _apply_by_partition(change, ("Would be paused", "Paused"), given)


def resume(given: dict[str, Any]) -> int:
    from toolkit.journeys import resume as journey

    group = only_group(exact_names(given["groups"]))
    with opened_cluster(given) as access:
        change = journey.resume(access, group, given["topics"])
    return _apply_by_partition(change, ("Would be resumed", "Resumed"), given)


def reset(given: dict[str, Any]) -> int:
    from toolkit.journeys import reset as journey

    to, topics = _target(given), given["topics"]
    with opened_cluster(given) as access:
        change = journey.reset(
            access, chosen_by(given), to=to, topics=topics, new_topics=given["new_topics"]
        )
    offsets = _NewOffsets(change.plan, journey.committed_in_scope(change, to, topics))
    write: Write = offsets.write_table
    if given["export"]:
        write = partial(offsets.write_csv, with_group=not _is_of_one_group(given))
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
    parameters = approval_parameters(dict(given))
    if given["execute"]:  # approves what is shown, but does not say why
        approve = parameters.approve or change.fingerprint
        parameters = replace(parameters, approve=approve)
    is_only_shown = not (asks or parameters.approve or parameters.dry_run)
    parameters = replace(parameters, dry_run=parameters.dry_run or is_only_shown)
    planned = CommandPlan(
        change,
        overrides=(FORCE_RULE,) if given["force"] else (),
        tool=ToolForm(write, is_only_shown),
    )
    return change_flow.change(planned, tool_scope(given), parameters)


def _target(given: dict[str, Any]) -> RequestedTarget:
    is_by_time = any(given[name] is not None for name in BY_TIME)
    past_end = given["past_end"] or ("latest" if is_by_time else "keep")
    to = target_of({**given, "from_group": None, "past_end": past_end})
    if not to.names_groups and not _is_of_one_group(given):
        raise UsageError(
            f"offsets file {to.value} does not say which group each line is for",
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

    def write_csv(self, outcome: Outcome | None, *, with_group: bool) -> None:
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
