"""What is paused in groups, and what a board of a group's partitions shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from glob import escape
from pathlib import Path

import pandas as pd

from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Snapshot
from toolkit.planning.frames.snapshot_frames import offsets_frame, problems_frame
from toolkit.planning.holds.board_tiles import tiles_frame
from toolkit.planning.holds.paused_frame import paused_frame
from toolkit.planning.lag.lag import with_lag
from toolkit.report.made_from import end_plans
from toolkit.report.safe_names import visible_lines
from toolkit.report.tables import show_problems, show_table
from toolkit.storage.hold_files import has_live_keeper, hold_path
from toolkit.storage.operator import Operator


def find_paused(snapshot: Snapshot, state: Path) -> pd.DataFrame:
    """Return what is paused in the groups of a snapshot, see `paused_frame`."""
    held = [group.group_id for group in snapshot.groups if group.paused]
    paths = {name: hold_path(state, snapshot.cluster_id, name) for name in held}
    kept = {name for name, path in paths.items() if path.exists() and has_live_keeper(path)}
    return paused_frame(snapshot, by=Operator.here(), kept=kept)


def show_paused(rows: pd.DataFrame) -> None:
    """Show by whom, since when and until when partitions are paused; takes a `paused_frame`."""
    show_table(
        rows.drop(columns="cluster"),
        caption_text="Paused partitions, as the brokers report them",
        empty_text="No partition is paused.",
    )


@dataclass(frozen=True, eq=False, repr=False)
class PausedReport:
    """What is paused in groups, in `rows` as `paused_frame` has it, and what was not read."""

    facts: Snapshot
    rows: pd.DataFrame

    def __repr__(self) -> str:
        """Return the paused partitions as text."""
        return visible_lines(
            self.rows.to_string(index=False) if len(self.rows) else "Nothing is paused."
        )

    def _ipython_display_(self) -> None:
        """Show by whom, since when and until when each partition is paused."""
        show_problems(problems_frame(self.facts.problems, cluster=self.facts.cluster))
        show_paused(self.rows)


def paused(access: ClusterAccess, groups: str | Sequence[str] = ()) -> PausedReport:
    """
    Read what is paused in one group, in groups by name and shell pattern, or in all groups.

    Raises ClusterUnreachable; other read errors are rows in `facts.problems`.
    """
    if isinstance(groups, str):
        groups = [escape(groups)] if groups else ()
    facts = read_snapshot(access.cluster, groups=groups, on_progress=access.on_progress)
    return PausedReport(facts, find_paused(facts, access.state))


def board(access: ClusterAccess, group: str) -> PauseBoardSource:
    """Return what a board of a group's partitions shows, read again at each call."""
    return PauseBoardSource(access, group)


SELECTED = "partitions were selected on the board"


@dataclass
class PauseBoardSource:
    """Reads one group at each call, and remembers the reading before."""

    access: ClusterAccess
    group: str
    _before: pd.DataFrame | None = field(default=None, init=False)

    def selected(self, _selection: object) -> None:
        """Declare out of date what was planned before other partitions were selected."""
        end_plans(SELECTED)

    def __call__(self) -> pd.DataFrame:
        """Return the group's `tiles_frame`; raises what reading a cluster raises."""
        with self.access.connections.in_use():
            snapshot = read_snapshot(self.access.cluster, groups=[self.group])
        offsets = with_lag(offsets_frame(snapshot))
        paused = find_paused(snapshot, self.access.state)
        # A group may have a name that matches others.
        ours = (frame[frame["group"] == self.group] for frame in (offsets, paused))
        self._before = tiles_frame(*ours, earlier=self._before)
        return self._before
