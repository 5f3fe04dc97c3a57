"""The lag of every group of a cluster, from one reading."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

from toolkit.model import GroupType, Snapshot
from toolkit.model.commit_columns import columns_of
from toolkit.model.rows import Rows
from toolkit.planning.frames.snapshot_frames import groups_frame, offsets_frame
from toolkit.planning.lag.lag import lag_by_group, with_lag
from toolkit.planning.lag.lag_rows import group_rows, partition_rows, with_changes
from toolkit.report.frame_text import frame_text
from toolkit.report.lag_charts import show_lag_chart
from toolkit.report.read_errors import show_read_errors
from toolkit.report.safe_names import visible_lines
from toolkit.report.tables import show_table

if TYPE_CHECKING:
    import pandas as pd

SHARE = GroupType.SHARE  # has no committed offsets at all


@dataclass(frozen=True, eq=False, repr=False)
class LagReport:
    """One reading of a cluster: its groups, their committed offsets, and the lag of each."""

    facts: Snapshot

    @cached_property
    def partitions(self) -> pd.DataFrame:
        """One row for each partition that a group has committed or owns; see `with_lag`."""
        return with_lag(offsets_frame(self.facts))

    @property
    def groups(self) -> pd.DataFrame:
        """One row for each group; see `groups_frame`."""
        return groups_frame(self.facts)

    @property
    def by_group(self) -> pd.DataFrame:
        """One row for each group, largest lag first; see `lag_by_group`."""
        return lag_by_group(self.partitions)

    def partition_rows(self, *, largest_first: bool = False) -> Rows:
        """Return `partitions` as plain rows, which start at once."""
        return partition_rows(self.facts, largest_first=largest_first)

    @property
    def group_rows(self) -> Rows:
        return group_rows(self.facts)

    def with_changes(self, before: LagReport | None, *, by_group: bool) -> Rows:
        """Return the rows with what changed since an earlier report, largest lag first."""
        table = group_rows if by_group else partial(partition_rows, largest_first=True)
        return with_changes(table, self.facts, before.facts if before else None)

    @property
    def without_offsets(self) -> tuple[str, ...]:
        """The groups that have no row: nothing is committed, and no partition assigned."""
        known = {block.group_id for block in columns_of(self.facts.commits).blocks}
        known |= {
            group.group_id
            for group in self.facts.groups
            if any(member.assignment for member in group.members)
        }
        groups = (group.group_id for group in self.facts.groups if group.type is not SHARE)
        return tuple(group_id for group_id in groups if group_id not in known)

    def __repr__(self) -> str:
        return visible_lines(frame_text(self.by_group, max_rows=20))

    def _ipython_display_(self) -> None:
        show_read_errors(self.facts)
        show_lag_chart(self.by_group)
        show_table(self.by_group, caption_text="Lag by group", empty_text="No committed offsets.")
