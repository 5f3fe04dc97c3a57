"""The records around a group's committed offsets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from toolkit.errors import BrokerRefused, NotFound, UsageError
from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.kafka_io.logs.records_around import RecordsAround, read_records_around
from toolkit.kafka_io.read_snapshot import read_one_group
from toolkit.model import TopicPartition
from toolkit.model.plurals import counted
from toolkit.planning.diagnosis.record_text import MOST_CHARACTERS, records_frame
from toolkit.planning.frames.snapshot_frames import offsets_frame, problems_frame
from toolkit.planning.lag.lag import with_lag
from toolkit.planning.selection.partition_selection import parse_topics
from toolkit.report.frame_text import frame_text
from toolkit.report.record_cards import show_record_cards
from toolkit.report.safe_names import visible_lines
from toolkit.report.tables import show_problems
from toolkit.storage.saved_records import save_records

MOST_PARTITIONS = 5  # that are read by default


class PeekPlace(NamedTuple):
    """A committed offset, and whether its records are read by default."""

    partition: TopicPartition
    committed: int
    by_default: bool


@dataclass(frozen=True, eq=False, repr=False)
class PeekReport:
    """
    Records around the committed offsets in `positions`, with read errors in `around.problems`.

    `left_out` is the number of partitions that are read by default and were too many.
    """

    access: ClusterAccess
    group: str
    positions: dict[TopicPartition, int]
    around: RecordsAround
    left_out: int
    before: int
    after: int

    @property
    def cluster(self) -> str:
        """The cluster's name."""
        return self.access.cluster.name

    def save(self, path: Path) -> str:
        """
        Save these records byte for byte to a new file (see `saved_records`) and say what was saved.

        They are read again, whole. Raises UsageError where the file exists or there is no record,
        StateFileError, BrokerRefused where a partition could not be read, and ClusterUnreachable.
        """
        with self.access.connections.in_use():
            whole = read_records_around(
                self.access.cluster,
                self.positions,
                before=self.before,
                after=self.after,
                whole=True,
            )
        if whole.problems:
            problem = whole.problems[0]
            where = f"{problem.topic} partition {problem.partition}"
            raise BrokerRefused(f"nothing was saved: {problem.what} of {where}: {problem.why}")
        if not whole.records:
            raise UsageError("nothing was saved: there is no record around these offsets")
        save_records(path, self.cluster, whole.records)
        return f"{counted(len(whole.records), 'record')} saved to {path}, read back and compared"

    def frame(self, *, most_characters: int = MOST_CHARACTERS) -> pd.DataFrame:
        """Return cluster, group and the columns of `records_frame`, with texts cut to a length."""
        frame = records_frame(self.around.records, self.positions, most_characters=most_characters)
        frame.insert(0, "group", self.group)
        frame.insert(0, "cluster", self.cluster)
        return frame

    def __repr__(self) -> str:
        """Return the records as text."""
        shown = self.frame(most_characters=60)[["topic", "partition", "offset", "place", "value"]]
        return visible_lines(frame_text(shown, max_rows=20))

    def _ipython_display_(self) -> None:
        """Show the records, and what could not be read."""
        show_record_cards(self.around.records, self.positions, left_out=self.left_out)
        if self.around.problems:
            show_problems(problems_frame(self.around.problems, cluster=self.cluster))


def peek(
    access: ClusterAccess,
    group: str,
    topics: Sequence[str] = (),
    *,
    before: int = 1,
    after: int = 2,
) -> PeekReport:
    """
    Read the records before and after a group's committed offsets; commits nothing.

    `topics` are scopes (`TOPIC` or `TOPIC:0,1`); without any, at most five partitions with the
    largest lag. Raises NotFound for an unknown group or if no committed offset is selected,
    UsageError and ClusterUnreachable.
    """
    parse_topics(topics)  # before anything is read
    frame = with_lag(offsets_frame(read_one_group(access.cluster, group).facts))
    frame = frame.dropna(subset=["committed"]).sort_values("lag", ascending=False, kind="stable")
    found = read_around(
        access,
        group,
        (
            # An offset without a lag may be out of range: include it.
            PeekPlace(
                TopicPartition(row["topic"], row["partition"]),
                int(row["committed"]),
                by_default=row["lag"] != 0,
            )
            for row in frame.astype(object).to_dict("records")
        ),
        topics,
        before=before,
        after=after,
    )
    if not found.positions:
        raise NotFound(f"group {group!r} has no committed offset for partitions with lag")
    return found


def read_around(  # noqa: PLR0913 - one of them is the cluster
    access: ClusterAccess,
    group: str,
    places: Iterable[PeekPlace],
    topics: Sequence[str],
    *,
    before: int,
    after: int,
) -> PeekReport:
    """
    Read the records around those of the places in `topics`, or the first ones by default.

    Raises NotFound for topics without a committed offset.
    """
    scopes, places = parse_topics(topics), [*places]
    if scopes:
        missing = [str(s) for s in scopes if not any(p in s for p, _, _ in places)]
        if missing:
            there = ", ".join(sorted({p.topic for p, _, _ in places})) or "no topic"
            raise NotFound(
                f"group {group!r} has no committed offset for {', '.join(missing)}",
                hint=f"it has committed offsets for {there}",
            )
        chosen = {p: at for p, at, _ in places if any(p in scope for scope in scopes)}
        shown = chosen
    else:
        chosen = {p: at for p, at, by_default in places if by_default}
        shown = dict(list(chosen.items())[:MOST_PARTITIONS])
    with access.connections.in_use():
        around = read_records_around(access.cluster, shown, before=before, after=after)
    return PeekReport(access, group, shown, around, len(chosen) - len(shown), before, after)
