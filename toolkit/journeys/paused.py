"""What is paused in groups, and what a board of a group's partitions shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.journeys.change.group_choice import one_group
from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Snapshot
from toolkit.model.names import ExactName
from toolkit.model.rows import Rows
from toolkit.planning.holds.paused_rows import paused_rows
from toolkit.report.frame_text import frame_text
from toolkit.report.plan_inputs import end_plans
from toolkit.report.safe_names import visible_lines
from toolkit.storage.hold_files import has_live_keeper, hold_path
from toolkit.storage.operator import Operator

if TYPE_CHECKING:
    import pandas as pd


def find_paused(snapshot: Snapshot, state: Path) -> pd.DataFrame:
    """Return what is paused in the groups of a snapshot, see `paused_frame`."""
    from toolkit.planning.holds.paused_frames import paused_frame  # noqa: PLC0415 - loads pandas

    return paused_frame(
        snapshot, by=Operator.here(), groups_with_keeper=_groups_with_keeper(snapshot, state)
    )


def _groups_with_keeper(snapshot: Snapshot, state: Path) -> set[str]:
    """Return the groups with a running keeper of this state directory."""
    held = [group.group_id for group in snapshot.groups if group.paused]
    paths = {name: hold_path(state, snapshot.cluster_id, name) for name in held}
    return {name for name, path in paths.items() if path.exists() and has_live_keeper(path)}


def show_paused(rows: pd.DataFrame, *, when: str = ", as the brokers report them") -> None:
    """Show by whom, since when and until when partitions are paused; takes a `paused_frame`."""
    from toolkit.report.tables import show_table  # noqa: PLC0415 - loads pandas

    show_table(
        rows.drop(columns="cluster"),
        caption_text=f"Paused partitions{when}",
        empty_text="None.",
    )


@dataclass(frozen=True, eq=False, repr=False)
class PausedReport:
    """What is paused in groups, and what was not read."""

    facts: Snapshot
    state: Path

    @property
    def plain_rows(self) -> Rows:
        """What is paused, see `paused_rows`."""
        with_keeper = _groups_with_keeper(self.facts, self.state)
        return paused_rows(self.facts, by=Operator.here(), groups_with_keeper=with_keeper)

    @cached_property
    def rows(self) -> pd.DataFrame:
        """What is paused, see `paused_frame`."""
        return find_paused(self.facts, self.state)

    def __repr__(self) -> str:
        """Return the paused partitions as text."""
        return visible_lines(frame_text(self.rows) if len(self.rows) else "Nothing is paused.")

    def _ipython_display_(self) -> None:
        """Show by whom, since when and until when each partition is paused."""
        from toolkit.planning.frames.snapshot_frames import (  # noqa: PLC0415 - loads pandas
            problems_frame,
        )
        from toolkit.report.tables import show_problems  # noqa: PLC0415 - as above

        show_problems(problems_frame(self.facts.problems, cluster=self.facts.cluster))
        show_paused(self.rows)


def paused(access: ClusterAccess, groups: str | Sequence[str] = ()) -> PausedReport:
    """
    Read what is paused in one group, in groups by name and shell pattern, or in all groups.

    Raises ClusterUnreachable; other read errors are rows in `facts.problems`.
    """
    if isinstance(groups, str):
        groups = [ExactName(groups)] if groups else ()
    facts = read_snapshot(
        access.cluster, groups=groups, offsets=False, on_progress=access.on_progress
    )
    return PausedReport(facts, access.state)


def board(access: ClusterAccess, group: str | Sequence[str]) -> PauseBoardSource:
    """
    Return what a board of a group's partitions shows, read again at each call.

    Raises UsageError if not one group is named.
    """
    return PauseBoardSource(access, one_group(group, "a pause"))


SELECTED = "partitions were selected on the board"


@dataclass
class PauseBoardSource:
    """Reads one group at each call, and remembers the reading before."""

    access: ClusterAccess
    group: str
    _before: pd.DataFrame | None = field(default=None, init=False)

    def after_change(self, read_again: Callable[[], object]) -> None:
        """Have the board read the group again after every change by the same session."""
        self.access.tell_changed = read_again

    def selected(self, _selection: object) -> None:
        """Declare out of date what was planned before other partitions were selected."""
        end_plans(SELECTED)

    def __call__(self) -> pd.DataFrame:
        """Return the group's `tiles_frame`; raises what reading a cluster raises."""
        from toolkit.planning.frames.snapshot_frames import (  # noqa: PLC0415 - loads pandas
            offsets_frame,
        )
        from toolkit.planning.holds.paused_frames import tiles_frame  # noqa: PLC0415 - as above
        from toolkit.planning.lag.lag import with_lag  # noqa: PLC0415 - as above

        with self.access.connections.in_use():
            snapshot = read_snapshot(self.access.cluster, groups=[ExactName(self.group)])
        offsets = with_lag(offsets_frame(snapshot))
        paused = find_paused(snapshot, self.access.state)
        of_group = (frame[frame["group"] == self.group] for frame in (offsets, paused))
        self._before = tiles_frame(*of_group, earlier=self._before)
        return self._before
