"""Print the NEW-OFFSET table of a reset, including unchanged partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from toolkit.cli.consumer_groups.tool_tables import write_table
from toolkit.cli.output import echo_data
from toolkit.model import Commit, TopicPartition

if TYPE_CHECKING:
    from toolkit.plan import Outcome, Plan, Position

COLUMNS = ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")
Key = tuple[str, TopicPartition]


@dataclass(frozen=True)
class NewOffsets:
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
        from toolkit.storage.offsets_csv import csv_text

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
