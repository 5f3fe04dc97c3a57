"""`--reset-offsets`: move the committed offsets of idle groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.command_target import opened
from toolkit.cli.consumer_groups.cluster_and_groups import chosen_by, cluster_of, command_target_of
from toolkit.cli.consumer_groups.flags import TARGETS
from toolkit.cli.consumer_groups.tool_change_flow import ToolChange, apply_tool_change
from toolkit.cli.consumer_groups.tool_tables import write_table
from toolkit.cli.output import echo_data
from toolkit.errors import UsageError
from toolkit.journeys.reset import RequestedTarget, committed_in_scope, reset, target
from toolkit.model import Commit, TopicPartition

if TYPE_CHECKING:
    from toolkit.plan import Outcome, Plan, Position


COLUMNS = ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")
Key = tuple[str, TopicPartition]


def run(given: dict[str, Any]) -> int:
    to, topics = _target(given), given["topics"]
    with opened(command_target_of(given), cluster_of(given)) as access:
        change = reset(
            access, chosen_by(given), to=to, topics=topics, new_topics=given["new_topics"]
        )
    offsets = _NewOffsets(change.plan, committed_in_scope(change, to, topics))
    write = offsets.write_table
    if given["export"]:
        write = offsets.write_rows if _is_of_one_group(given) else offsets.write_group_rows
    return apply_tool_change(ToolChange(change, write), given)


def _target(given: dict[str, Any]) -> RequestedTarget:
    (name,) = (name for name in TARGETS if given[name] is not None and given[name] is not False)
    text = "" if given[name] is True else str(given[name])
    to = target(name.replace("_", "-"), text, past_end=given["past_end"])
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
        self._write_csv(outcome, with_group=False)

    def write_group_rows(self, outcome: Outcome | None) -> None:
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
