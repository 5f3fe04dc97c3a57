"""The records around a group's committed offsets."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from toolkit.errors import NotFound
from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.kafka_io.logs.records_around import read_records_around
from toolkit.kafka_io.read_snapshot import read_one_group
from toolkit.model import TopicPartition
from toolkit.model.records import RecordsAround
from toolkit.planning.frames.snapshot_frames import offsets_frame
from toolkit.planning.lag.lag import with_lag
from toolkit.planning.selection.partition_selection import parse_topics
from toolkit.report.peek_report import PeekPlace, PeekReport, PeekRequest

MOST_PARTITIONS = 5  # that are read by default


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
    places = [
        # An offset without a lag may be out of range: include it.
        PeekPlace(
            TopicPartition(row["topic"], row["partition"]),
            int(row["committed"]),
            by_default=row["lag"] != 0,
        )
        for row in frame.astype(object).to_dict("records")
    ]
    found = read_around(access, group, PeekRequest(places, topics, before, after))
    if not found.positions:
        raise NotFound(f"group {group!r} has no committed offset for partitions with lag")
    return found


def read_around(access: ClusterAccess, group: str, request: PeekRequest) -> PeekReport:
    """Read records around committed offsets; raises NotFound for topics without one."""
    chosen, shown = _chosen(group, request)

    def read(*, whole: bool) -> RecordsAround:
        with access.connections.in_use():
            return read_records_around(
                access.cluster, shown, before=request.before, after=request.after, whole=whole
            )

    around, left_out = read(whole=False), len(chosen) - len(shown)
    where = access.cluster.name
    return PeekReport(where, group, shown, around, left_out, request, partial(read, whole=True))


Positions = dict[TopicPartition, int]


def _chosen(group: str, request: PeekRequest) -> tuple[Positions, Positions]:
    """Return the offsets that are meant, and those of them that are read."""
    scopes, places = parse_topics(request.topics), request.places
    if scopes:
        missing = [str(s) for s in scopes if not any(p in s for p, _, _ in places)]
        if missing:
            there = ", ".join(sorted({p.topic for p, _, _ in places})) or "no topic"
            raise NotFound(
                f"group {group!r} has no committed offset for {', '.join(missing)}",
                hint=f"it has committed offsets for {there}",
            )
        chosen = {p: at for p, at, _ in places if any(p in scope for scope in scopes)}
        return chosen, chosen
    chosen = {p: at for p, at, by_default in places if by_default}
    return chosen, dict(list(chosen.items())[:MOST_PARTITIONS])
