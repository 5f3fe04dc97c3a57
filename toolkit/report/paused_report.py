"""The paused partitions of groups: by whom, since when, until when and why."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.model import Snapshot
from toolkit.model.rows import Rows
from toolkit.planning.frames.frame_of import frame_of
from toolkit.planning.holds.paused_partitions import paused_rows
from toolkit.report.cell_text import frame_text
from toolkit.report.notices import show_read_errors
from toolkit.report.safe_names import visible_lines
from toolkit.report.tables import show_table
from toolkit.storage.hold_files import has_live_keeper, hold_path
from toolkit.storage.state_folder import Operator

if TYPE_CHECKING:
    import pandas as pd


def find_paused(snapshot: Snapshot, state: Path) -> pd.DataFrame:
    """Return the paused partitions in a snapshot, see `paused_rows`."""
    return frame_of(_rows(snapshot, state))


def _rows(snapshot: Snapshot, state: Path) -> Rows:
    held = [group.group_id for group in snapshot.groups if group.paused]
    paths = {name: hold_path(state, snapshot.cluster_id, name) for name in held}
    kept = {name for name, path in paths.items() if path.exists() and has_live_keeper(path)}
    return paused_rows(snapshot, by=Operator.here(), groups_with_keeper=kept)


def show_paused(rows: pd.DataFrame, *, when: str = ", as the brokers report them") -> None:
    """Show by whom, since when and until when partitions are paused: what `find_paused` found."""
    show_table(
        rows.drop(columns="cluster"),
        caption_text=f"Paused partitions{when}",
        empty_text="None.",
    )


@dataclass(frozen=True, eq=False, repr=False)
class PausedReport:
    """The paused partitions of groups, and what was not read."""

    facts: Snapshot
    state: Path

    @property
    def plain_rows(self) -> Rows:
        """What is paused, see `paused_rows`."""
        return _rows(self.facts, self.state)

    @cached_property
    def rows(self) -> pd.DataFrame:
        """`plain_rows` as a frame."""
        return find_paused(self.facts, self.state)

    def __repr__(self) -> str:
        return visible_lines(frame_text(self.rows) if len(self.rows) else "Nothing is paused.")

    def _ipython_display_(self) -> None:
        show_read_errors(self.facts)
        show_paused(self.rows)
