"""Paused partitions of groups, and the facts of a board of a group's partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from toolkit.journeys.change.group_choice import one_group
from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Problem, Unread
from toolkit.model.names import ExactName
from toolkit.planning.frames.snapshot_frames import offsets_frame
from toolkit.planning.holds.paused_partitions import tiles_frame
from toolkit.report.paused_report import PausedReport, find_paused
from toolkit.report.plan_inputs import end_plans

if TYPE_CHECKING:
    import pandas as pd


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
HIDE_HOLDS = frozenset({Unread.GROUPS, Unread.MEMBERS, Unread.HELD_PARTITIONS})


@dataclass
class PauseBoardSource:
    """Reads one group at each call, and remembers that reading, and what it could not read."""

    access: ClusterAccess
    group: str
    _before: pd.DataFrame | None = field(default=None, init=False)
    _problems: tuple[Problem, ...] = field(default=(), init=False)

    def after_change(self, read_again: Callable[[], object]) -> None:
        """Have the board read the group again after every change by the same session."""
        self.access.tell_changed = read_again

    def selected(self, _selection: object) -> None:
        """Mark a plan as out of date when other partitions are selected."""
        end_plans(SELECTED)

    def not_read(self) -> list[str]:
        """Return what the last call could not read, and why."""
        return list(dict.fromkeys(f"{one.what}: {one.why}" for one in self._problems))

    def __call__(self) -> pd.DataFrame:
        """Return the group's `tiles_frame`; raises what reading a cluster raises."""
        with self.access.connections.in_use():
            snapshot = read_snapshot(self.access.cluster, groups=[ExactName(self.group)])
        offsets = offsets_frame(snapshot)
        paused = find_paused(snapshot, self.access.state)
        of_group = (frame[frame["group"] == self.group] for frame in (offsets, paused))
        self._problems = snapshot.read_errors
        knows_holds = not any(one.what in HIDE_HOLDS for one in self._problems)
        self._before = tiles_frame(*of_group, earlier=self._before, knows_holds=knows_holds)
        return self._before
