"""Copy a group's offsets, within its cluster or to a mirror, and give a group another name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolkit.errors import UsageError
from toolkit.journeys.change.change_facts import read_topics, without_missing
from toolkit.journeys.change.group_choice import one_group
from toolkit.journeys.change.planned_change import PlannedChange
from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.kafka_io.client.shared_connections import connected
from toolkit.kafka_io.logs.log_offsets import read_offsets_at
from toolkit.kafka_io.logs.record_times import read_first_records
from toolkit.model import Snapshot
from toolkit.model.names import ExactName, named
from toolkit.planning.changes.copy import (
    ByOffset,
    ByTime,
    MirrorPair,
    instants,
    plan_copy,
    plan_copy_between,
    plan_rename,
    records_to_date,
)
from toolkit.planning.selection.partition_selection import parse_topics
from toolkit.report.run_command import NotebookCall

BY_TIME, BY_OFFSET = "time", "offset"


@dataclass(frozen=True, slots=True)
class CopyRequest:
    """
    The group to copy, its topics, the new name, and the method.

    `topics` are scopes as in `topic:0-5`; none means all that is committed. `to_group` may be empty
    for a mirror: the same name. A name in double quotes is read without them, so that `""` is
    the group whose name is empty. `by` ("time" or "offset") and `topic_prefix` are about a mirror.
    Raises UsageError for what cannot be read.
    """

    group: str | Sequence[str]
    to_group: str = ""
    topics: Sequence[str] = ()
    by: str = BY_TIME
    topic_prefix: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "group", one_group(self.group, "a copy"))  # it is frozen
        if self.by not in {BY_TIME, BY_OFFSET}:
            hint = f"one of: {BY_TIME}, {BY_OFFSET}"
            raise UsageError(f"unknown value {self.by!r} for the offsets of a mirror", hint=hint)
        parse_topics(self.topics)

    @property
    def source(self) -> str:
        """The name of the group that is copied."""
        return str(self.group)

    @property
    def target(self) -> str:
        """The name of the group it is copied to."""
        return named(self.to_group) if self.to_group else self.source


def copy(
    access: ClusterAccess, request: CopyRequest, *, mirror: ClusterAccess | str | None = None
) -> PlannedChange:
    """
    Plan to commit for another group, or on a mirror, where a group of this cluster is.

    The change is of the `mirror`, another cluster or its name, if one is given. Raises UsageError
    if both ends are one, and ClusterUnreachable.
    """
    if mirror:
        end = access.for_cluster(mirror) if isinstance(mirror, str) else mirror
        return _to_mirror(access, end, request)
    if request.topic_prefix:
        raise UsageError(
            "a prefix of topics is for a copy to another cluster",
            hint="name the other cluster, or leave the prefix out",
        )
    if not request.to_group:
        raise UsageError(
            f"no other name for group {request.group!r} is given",
            hint="name the group to copy to, or another cluster",
        )
    facts = _read_pair(access, request.source, request.target)
    plan = plan_copy(facts, source=request.source, target=request.target, topics=request.topics)
    return PlannedChange(access=access, plan=plan, facts=facts, call=_call(request))


def rename(access: ClusterAccess, group: str, *, to_group: str) -> PlannedChange:
    """Plan to copy an idle group to a new name, verify it, and delete the old group."""
    facts = _read_pair(access, group, to_group)
    return PlannedChange(
        access=access, plan=plan_rename(facts, source=group, target=to_group), facts=facts
    )


def _read_pair(access: ClusterAccess, group: str, to_group: str) -> Snapshot:
    return without_missing(_read_source(access, group, ExactName(to_group)), {to_group})


def _read_source(access: ClusterAccess, group: str, *others: str) -> Snapshot:
    """Read a group with all partitions of its topics: some may have no committed offset."""
    first = read_topics(access, [ExactName(group)])
    committed = {commit.topic for commit in first.commits}
    return read_topics(access, [ExactName(group), *others], topics=committed)


def _to_mirror(access: ClusterAccess, mirror: ClusterAccess, request: CopyRequest) -> PlannedChange:
    pair = MirrorPair(request.source, request.target, request.topic_prefix)
    # The source first: later commits there only make the mirror's group start earlier.
    here = _read_source(access, pair.source)
    mirrored = {pair.mirrored(partition).topic for partition in here.logs}
    there = read_topics(mirror, [ExactName(pair.target)], topics=mirrored)
    by_time = request.by == BY_TIME
    way = _by_time((access, mirror), request, pair, here) if by_time else ByOffset()
    plan = plan_copy_between(here, there, pair=pair, by=way, topics=request.topics)
    return PlannedChange(
        access=mirror,
        plan=plan,
        facts=without_missing(there, {pair.target}),
        source=here,
        call=_call(request, source=access.cluster.name, mirror=mirror.cluster.name),
    )


def _by_time(
    ends: tuple[ClusterAccess, ClusterAccess],
    request: CopyRequest,
    pair: MirrorPair,
    here: Snapshot,
) -> ByTime:
    """Look up when the records at the commits were written, and where the mirror was then."""
    positions = records_to_date(here, pair.source, topics=request.topics)
    # A mirror may lack an aborted record: with its time, records after it would be skipped.
    most = len(positions)
    first = read_first_records(ends[0].cluster, positions, most=most, committed=True)
    times = {position: record.at for position, record in first.items() if record.at}
    with connected(ends[1].cluster) as connection:
        # What could not be looked up is missing from the answer, which the plan says.
        found, _ = read_offsets_at(connection, instants(here, pair, times))
    return ByTime(times, found)


def _call(request: CopyRequest, *, source: str = "", mirror: str = "") -> NotebookCall:
    parameters = {
        "cluster": source,
        "groups": [ExactName(request.source)],
        "to_group": request.to_group,
        "to_cluster": mirror,
        "by": "" if request.by == BY_TIME else request.by,
        "topic_prefix": request.topic_prefix,
        "topics": request.topics,
    }
    return NotebookCall("52_copy_offsets", parameters, takes_plan_file=True)
