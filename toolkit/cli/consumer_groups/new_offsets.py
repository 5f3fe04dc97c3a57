"""Print the NEW-OFFSET table of a reset, including unchanged partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from toolkit.cli.consumer_groups.tool_tables import write_table
from toolkit.cli.output import echo_data
from toolkit.model import Commit, TopicPartition
from toolkit.planning.selection.partition_selection import TopicScope

if TYPE_CHECKING:
    from toolkit.journeys.change.planned_change import PlannedChange
    from toolkit.plan import Outcome, Position
    from toolkit.planning.changes.targets import Target

COLUMNS = ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")
Key = tuple[str, TopicPartition]


@dataclass(frozen=True)
class NewOffsets:
    """A plan for some groups, and which of their partitions were meant by it."""

    change: PlannedChange
    target: Target
    scopes: Sequence[TopicScope]

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
        from toolkit.storage.offsets_csv import csv_text

        rows = self._offsets(outcome).items()
        commits = [Commit(group, *at, offset) for (group, at), offset in rows if offset is not None]
        echo_data(csv_text(commits, with_group=with_group))

    def _offsets(self, outcome: Outcome | None) -> dict[Key, int | None]:
        offsets: dict[Key, int | None] = dict(self._held())
        if outcome is None:
            for step, change in self.change.plan.changes:
                offsets[step.group_id, change.partition] = _offset(change.after)
        else:
            for done in outcome.steps:
                for result in done.results:
                    offsets[done.group_id, result.partition] = _offset(result.found)
        return dict(sorted(offsets.items()))

    def _held(self) -> Iterator[tuple[Key, int]]:
        """Yield what is committed where something was asked for."""
        meant = {group.group_id for group in self.change.facts.groups}
        for commit in self.change.facts.commits:
            partition = TopicPartition(commit.topic, commit.partition)
            if commit.group_id not in meant:
                continue
            if self.scopes and not any(partition in scope for scope in self.scopes):
                continue
            rows = self.target.named(commit.group_id)
            if rows is None or partition in rows:
                yield (commit.group_id, partition), commit.offset


def _offset(position: Position | None) -> int | None:
    return None if position is None else position.offset
