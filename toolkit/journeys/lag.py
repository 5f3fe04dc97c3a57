"""Lag of every group of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Snapshot
from toolkit.planning.frames.snapshot_frames import offsets_frame, problems_frame
from toolkit.planning.lag.lag import lag_by_group, with_lag
from toolkit.report.lag_charts import show_lag_chart
from toolkit.report.tables import show_problems, show_table


@dataclass(frozen=True, eq=False, repr=False)
class LagReport:
    """One reading of a cluster, with the lag of each committed offset in `partitions`."""

    facts: Snapshot
    partitions: pd.DataFrame

    @property
    def by_group(self) -> pd.DataFrame:
        """One row for each group, largest lag first; see `lag_by_group`."""
        return lag_by_group(self.partitions)

    def __repr__(self) -> str:
        """Return the groups as text."""
        return str(self.by_group.to_string(index=False, max_rows=20))

    def _ipython_display_(self) -> None:
        """Show read errors, and the groups with the largest lag."""
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
    return LagReport(facts, with_lag(offsets_frame(facts)))
