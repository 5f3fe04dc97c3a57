"""Committed offsets of topics that a live group no longer subscribes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Group, Snapshot
from toolkit.model.plurals import counted
from toolkit.planning.unsubscribed.unsubscribed_offsets import (
    Unsubscribed,
    find_unsubscribed,
    uncheckable_reason,
)
from toolkit.report.frame_text import frame_text
from toolkit.report.safe_names import visible_lines

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class UnsubscribedReport:
    """The unsubscribed offsets of live groups in `found`, and the facts they were found in."""

    facts: Snapshot
    found: Unsubscribed

    def of_groups(self, groups: Sequence[str]) -> UnsubscribedReport:
        """Return the report of groups, by name and shell pattern; raises NotFound if none match."""
        if not groups:
            return self
        return UnsubscribedReport(self.facts, find_unsubscribed(self.facts, groups=groups))

    @property
    def rows(self) -> pd.DataFrame:
        """One row for each unsubscribed offset, largest lag first; see `Unsubscribed`."""
        return self.found.rows

    @property
    def summary(self) -> str:
        """The finding in one sentence."""
        rows, left_out = self.rows, self.found.left_out
        return (
            f"{self.facts.cluster}: {counted(len(rows), 'unsubscribed offset')} in "
            f"{counted(rows['group'].nunique(), 'group')}, whose lag of {rows['lag'].sum():,} they "
            f"will not read; {counted(len(left_out), 'group')} skipped, "
            f"{counted(len(self.facts.read_errors), 'read error')}."
        )

    def __repr__(self) -> str:
        """Return the finding and the offsets as text."""
        return visible_lines(f"{self.summary}\n{frame_text(self.rows, max_rows=20)}")

    def _ipython_display_(self) -> None:
        """Show read errors, and what was found."""
        from toolkit.planning.frames.snapshot_frames import (  # noqa: PLC0415 - loads pandas
            problems_frame,
        )
        from toolkit.report.tables import show_problems  # noqa: PLC0415 - only notebooks come here

        show_problems(problems_frame(self.facts.problems, cluster=self.facts.cluster))
        self.show_found()

    def show_found(self) -> None:
        """Show the lag by group, every offset, and the skipped groups."""
        from toolkit.report.lag_charts import (  # noqa: PLC0415 - loads plotly
            show_unsubscribed_lag_chart,
        )
        from toolkit.report.tables import show_table  # noqa: PLC0415 - only notebooks come here

        show_unsubscribed_lag_chart(self.found.by_group)
        show_table(
            self.rows.drop(columns="deletable_now"),
            caption_text="Unsubscribed offsets",
            empty_text="No unsubscribed offsets.",
        )
        show_table(
            self.found.left_out,
            caption_text="Skipped groups",
            empty_text="All groups with commits were checked.",
        )


def unsubscribed(access: ClusterAccess, groups: Sequence[str] = ()) -> UnsubscribedReport:
    """
    Find the unsubscribed offsets of all live groups, or of groups by name and shell pattern.

    Reads the whole cluster in either case, to find the other groups that subscribe to each topic.
    Times of commits are read only of groups whose subscription is known. Raises NotFound if no
    group has any of the names, and ClusterUnreachable.
    """
    facts = read_snapshot(access.cluster, commit_times=_is_checked, on_progress=access.on_progress)
    return UnsubscribedReport(facts, find_unsubscribed(facts, groups=groups))


def _is_checked(group: Group) -> bool:
    return not uncheckable_reason(group)
