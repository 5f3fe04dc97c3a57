"""A copy of a group's offsets, within its cluster or to a mirror: read for, and planned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from toolkit.errors import UsageError
from toolkit.journeys.change.change_facts import without_missing
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.logs.offsets_by_time import read_offsets_at
from toolkit.kafka_io.logs.record_times import read_record_times
from toolkit.kafka_io.read_plan_facts import read_plan_facts
from toolkit.model import Cluster, Snapshot
from toolkit.plan import Plan
from toolkit.planning.changes.copy import plan_copy
from toolkit.planning.changes.copy_to_mirror import (
    ByOffset,
    ByTime,
    MirrorPair,
    instants,
    plan_copy_between,
    records_to_date,
)
from toolkit.planning.selection.scope import parse_topics

BY_TIME, BY_OFFSET = "time", "offset"


class ReadFacts(Protocol):
    """Reads groups, and every partition of some topics, as `read_plan_facts` does."""

    def __call__(
        self, cluster: Cluster, *, groups: Sequence[str], topics: Sequence[str] = ()
    ) -> Snapshot:
        """Return the facts."""


@dataclass(frozen=True, slots=True)
class CopyWish:
    """
    What somebody wants copied: which group, of which topics, under which name, and how.

    `topics` are scopes as in `topic:0-5`; none means all that is committed. `to_group` may be empty
    for a mirror: the same name. `by` and `topic_prefix` are about a mirror. Raises UsageError for
    what cannot be read.
    """

    group: str
    to_group: str = ""
    topics: Sequence[str] = ()
    by: str = BY_TIME
    topic_prefix: str = ""

    def __post_init__(self) -> None:
        """Check what was written."""
        if not self.group:
            raise UsageError("no group is named", hint="name the group to copy")
        if self.by not in {BY_TIME, BY_OFFSET}:
            hint = f"one of: {BY_TIME}, {BY_OFFSET}"
            raise UsageError(f"{self.by!r} is no way to find the offsets of a mirror", hint=hint)
        parse_topics(self.topics)


class PlannedCopy(NamedTuple):
    """A plan, and what it was made from: the facts of the cluster that it changes come last."""

    plan: Plan
    read: tuple[Snapshot, ...]


def plan_group_copy(
    source: Cluster,
    wish: CopyWish,
    *,
    mirror: Cluster | None = None,
    read: ReadFacts = read_plan_facts,
) -> PlannedCopy:
    """
    Plan to commit for another group, or on another cluster, where a group of the source is.

    Without a mirror it stays within the cluster. `read` reads the facts. Raises UsageError where
    both ends are one, ClusterUnreachable where a cluster does not answer.
    """
    if mirror is not None:
        return _to_mirror((source, mirror), wish, read)
    if wish.topic_prefix:
        raise UsageError(
            "a prefix of topics is for a copy to another cluster",
            hint="name the other cluster, or leave the prefix out",
        )
    if not wish.to_group:
        raise UsageError(
            f"no other name for group {wish.group!r} is given",
            hint="name the group to copy to, or another cluster",
        )
    facts = read(source, groups=[wish.group, wish.to_group])
    plan = plan_copy(facts, source=wish.group, target=wish.to_group, topics=wish.topics)
    return PlannedCopy(plan, (without_missing(facts, {wish.to_group}),))


def _to_mirror(clusters: tuple[Cluster, Cluster], wish: CopyWish, read: ReadFacts) -> PlannedCopy:
    pair = MirrorPair(wish.group, wish.to_group or wish.group, wish.topic_prefix)
    # The source first: what it commits in between only makes the mirror's group start earlier.
    here = read(clusters[0], groups=[pair.source])
    mirrored = sorted({pair.mirrored(partition).topic for partition in here.logs})
    there = read(clusters[1], groups=[pair.target], topics=mirrored)
    way = ByOffset() if wish.by == BY_OFFSET else _by_time(clusters, wish, pair, here)
    plan = plan_copy_between(here, there, pair=pair, by=way, topics=wish.topics)
    return PlannedCopy(plan, (here, without_missing(there, {pair.target})))


def _by_time(
    clusters: tuple[Cluster, Cluster], wish: CopyWish, pair: MirrorPair, here: Snapshot
) -> ByTime:
    """Look up when the records at the commits were written, and where the mirror was then."""
    wanted = records_to_date(here, pair.source, topics=wish.topics)
    times = read_record_times(clusters[0], wanted, most=len(wanted))
    with Connection(clusters[1]) as connection:
        # What could not be looked up is missing from the answer, which the plan says.
        found, _ = read_offsets_at(connection, instants(here, pair, times))
    return ByTime(times, found)
