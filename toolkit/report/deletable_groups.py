"""Which groups of a cluster can be deleted, and why the others cannot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolkit.report.tables import show_table

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class DeletableGroups:
    """
    The groups of a cluster that can be deleted, and those that cannot.

    `rows` has the columns of `groups_frame` but state and members, lag, unknown_lag_partitions and,
    as `offsets expire about`, when brokers expire the last committed offset of the group, null if
    that is unknown. `others` has group, type, state, members and why.
    """

    rows: pd.DataFrame
    others: pd.DataFrame

    def show_others(self) -> None:
        """Show the groups that cannot be deleted, and why; nothing if there are none."""
        if len(self.others):
            show_table(self.others, caption_text="Groups that cannot be deleted")
