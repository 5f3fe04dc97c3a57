"""The records around a group's committed offsets."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from toolkit.errors import NotFound
from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.kafka_io.logs.records_around import read_records_around
from toolkit.kafka_io.read_snapshot import read_one_group
from toolkit.model.records import RecordsAround
from toolkit.planning.frames.snapshot_frames import offsets_frame
from toolkit.planning.selection.group_selection import refuse_unread_commits
from toolkit.planning.selection.partition_selection import parse_topics
from toolkit.planning.selection.peek_places import PeekRequest, peek_places
from toolkit.report.peek_report import PeekReport


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
    BrokerRefused if that is because they could not be read, UsageError and ClusterUnreachable.
    """
    parse_topics(topics)  # before anything is read
    facts = read_one_group(access.cluster, group).facts
    offsets = offsets_frame(facts)
    offsets = offsets.sort_values("lag", ascending=False, kind="stable")
    # An offset without a lag may be out of range: include it.
    places = peek_places(offsets, (offsets["lag"] != 0).fillna(value=True))
    try:
        found = read_around(access, group, PeekRequest(places, topics, before, after))
    except NotFound:
        refuse_unread_commits(facts, group)
        raise
    if not found.positions:
        refuse_unread_commits(facts, group)
        if offsets["committed"].isna().all():
            raise NotFound(f"group {group!r} has no committed offset")
        raise NotFound(f"no partition of group {group!r} has lag", hint="name a topic to look at")
    return found


def read_around(access: ClusterAccess, group: str, request: PeekRequest) -> PeekReport:
    """Read records around committed offsets; raises NotFound for topics without one."""
    chosen = request.choose(group)

    def read(*, whole: bool) -> RecordsAround:
        with access.connections.in_use():
            return read_records_around(
                access.cluster,
                chosen.positions,
                before=request.before,
                after=request.after,
                whole=whole,
            )

    return PeekReport(
        access.cluster.name,
        group,
        chosen,
        read(whole=False),
        request,
        partial(read, whole=True),
        access.fleet_file,
    )
