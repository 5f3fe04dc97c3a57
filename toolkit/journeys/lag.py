"""Lag of every group of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import GroupType, Snapshot
from toolkit.planning.frames.snapshot_frames import groups_frame, offsets_frame, problems_frame
from toolkit.planning.lag.lag import lag_by_group, with_lag
from toolkit.report.safe_names import visible_lines

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

    @property
    def without_offsets(self) -> tuple[str, ...]:
        """The groups that have no row: nothing is committed, and no partition assigned."""
        known = set(self.partitions["group"])
        groups = (group.group_id for group in self.facts.groups if group.type is not SHARE)
        return tuple(group_id for group_id in groups if group_id not in known)

    def __repr__(self) -> str:
        """Return the groups as text."""
        return visible_lines(str(self.by_group.to_string(index=False, max_rows=20)))

    def _ipython_display_(self) -> None:
        """Show read errors, and the groups with the largest lag."""
        from toolkit.report.lag_charts import show_lag_chart  # noqa: PLC0415 - loads plotly
        from toolkit.report.tables import show_problems, show_table  # noqa: PLC0415

        show_problems(problems_frame(self.facts.problems, cluster=self.facts.cluster))
        show_lag_chart(self.by_group)
        show_table(self.by_group, caption_text="Lag by group", empty_text="No committed offsets.")


def lag(
    access: ClusterAccess, groups: Sequence[str] = (), *, commit_times: bool = False
) -> LagReport:
    """
    Read the lag of groups, by name and shell pattern, or of all groups.

    Unknown lag is null, not 0. Raises ClusterUnreachable; other read errors are rows in
    `facts.problems`.
    """
    facts = read_snapshot(
        access.cluster, groups=groups, commit_times=commit_times, on_progress=access.on_progress
    )
    return LagReport(facts)
