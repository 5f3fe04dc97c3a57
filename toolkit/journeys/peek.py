"""The records around a group's committed offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from toolkit.errors import NotFound
from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.kafka_io.logs.records_around import RecordsAround, read_records_around
from toolkit.kafka_io.one_group import read_one_group
from toolkit.model import TopicPartition
from toolkit.planning.diagnosis.record_text import MOST_CHARACTERS, records_frame
from toolkit.planning.frames.snapshot_frames import offsets_frame, problems_frame
from toolkit.planning.lag.lag import with_lag
from toolkit.planning.selection.scope import parse_topics
from toolkit.report.record_cards import show_record_cards
from toolkit.report.tables import show_problems

MOST_LAGGING = 5  # partitions that are read by default


@dataclass(frozen=True, eq=False, repr=False)
class PeekReport:
    """
    Records around the committed offsets in `positions`, and read errors in `found.problems`.

    `left_out` is the number of lagging partitions that were not read.
    """

    cluster: str
    group: str
    positions: dict[TopicPartition, int]
    found: RecordsAround
    left_out: int

    def frame(self, *, most_characters: int = MOST_CHARACTERS) -> pd.DataFrame:
        """Return cluster, group and the columns of `records_frame`, with texts cut to a length."""
        frame = records_frame(self.found.records, self.positions, most_characters=most_characters)
        frame.insert(0, "group", self.group)
        frame.insert(0, "cluster", self.cluster)
        return frame

    def __repr__(self) -> str:
        """Return the records as text."""
        shown = self.frame(most_characters=60)[["topic", "partition", "offset", "place", "value"]]
        return str(shown.to_string(index=False, max_rows=20))

    def _ipython_display_(self) -> None:
        """Show the records, and what could not be read."""
        show_record_cards(self.found.records, self.positions, left_out=self.left_out)
        if self.found.problems:
            show_problems(problems_frame(self.found.problems, cluster=self.cluster))


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
    scopes = parse_topics(topics)
    frame = with_lag(offsets_frame(read_one_group(access.cluster, group).facts))
    frame = frame.dropna(subset=["committed"]).sort_values("lag", ascending=False, kind="stable")
    committed = {
        TopicPartition(row["topic"], row["partition"]): (int(row["committed"]), row["lag"])
        for row in frame.astype(object).to_dict("records")
    }
    if scopes:
        chosen = {p: at for p, (at, _) in committed.items() if any(p in s for s in scopes)}
    else:
        # An offset without a lag may be out of range: include it.
        chosen = {p: at for p, (at, lag) in committed.items() if lag != 0}
    if not chosen:
        what = ", ".join(topics) if topics else "partitions with lag"
        raise NotFound(
            f"group {group!r} has no committed offset for {what}",
            hint="use another --topic; see 'offsetbook groups describe'",
        )
    shown = chosen if scopes else dict(list(chosen.items())[:MOST_LAGGING])
    found = read_records_around(access.cluster, shown, before=before, after=after)
    return PeekReport(access.cluster.name, group, shown, found, len(chosen) - len(shown))
