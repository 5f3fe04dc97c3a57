"""What is paused in groups, and what a board of a group's partitions shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Cluster, Snapshot
from toolkit.planning.frames.snapshot_frames import offsets_frame
from toolkit.planning.holds.paused_frame import paused_frame
from toolkit.planning.holds.tiles import tiles_frame
from toolkit.planning.lag.lag import with_lag
from toolkit.storage.hold_files import hold_path, is_kept
from toolkit.storage.operator import Operator


def find_paused(snapshot: Snapshot, state: Path) -> pd.DataFrame:
    """Return what is paused in the groups of a snapshot, see `paused_frame`."""
    held = [group.group_id for group in snapshot.groups if group.paused]
    paths = {name: hold_path(state, snapshot.cluster_id, name) for name in held}
    kept = {name for name, path in paths.items() if path.exists() and is_kept(path)}
    return paused_frame(snapshot, by=Operator.here(), kept=kept)


@dataclass
class PauseBoardSource:
    """Looks at one group whenever it is called, and remembers the look before."""

    cluster: Cluster
    group: str
    state: Path
    _before: pd.DataFrame | None = field(default=None, init=False)

    def __call__(self) -> pd.DataFrame:
        """Return the group's `tiles_frame`; raises what reading a cluster raises."""
        snapshot = read_snapshot(self.cluster, groups=[self.group])
        offsets = with_lag(offsets_frame(snapshot))
        paused = find_paused(snapshot, self.state)
        # A group may have a name that matches others.
        ours = (frame[frame["group"] == self.group] for frame in (offsets, paused))
        self._before = tiles_frame(*ours, earlier=self._before)
        return self._before
