"""The part of `offsetbook copy` that goes to another cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit.cli.facts import choose_cluster, read_facts
from toolkit.cli.planner import Asked, Planned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolkit.model import Cluster, Snapshot
    from toolkit.planning.mirror import ByOffset, ByTime, Pair


def copy_to_mirror(
    asked: Asked, pair: Pair, *, mirror: str, by: str, topics: Sequence[str]
) -> Planned:
    """Plan to copy a group's offsets to another cluster, by equal offsets or by time."""
    from toolkit.planning.mirror import ByOffset, plan_copy_between

    source_cluster, target_cluster = choose_cluster(asked), choose_cluster(asked, mirror)
    # The source first: what it commits in between only makes the mirror's group start earlier.
    source = read_facts(asked, source_cluster, groups=[pair.source])
    partitions = (pair.mirrored(partition) for partition in source.logs)
    names = sorted({partition.topic for partition in partitions})
    there = read_facts(asked, target_cluster, groups=[pair.target], topics=names)
    way: ByOffset | ByTime = ByOffset()
    if by == "time":
        way = _by_time(source, pair, clusters=(source_cluster, target_cluster), topics=topics)
    plan = plan_copy_between(source, there, pair=pair, by=way, topics=topics)
    return Planned(plan, target_cluster, there)


def _by_time(
    source: Snapshot, pair: Pair, *, clusters: tuple[Cluster, Cluster], topics: Sequence[str]
) -> ByTime:
    """Look up when the records at the commits were written, and where the mirror was then."""
    from toolkit.kafka_io.connect import Connection
    from toolkit.kafka_io.offsets_by_time import read_offsets_at
    from toolkit.kafka_io.record_times import read_record_times
    from toolkit.planning.mirror import ByTime, instants, records_to_date

    wanted = records_to_date(source, pair.source, topics=topics)
    times = read_record_times(clusters[0], wanted, most=len(wanted))
    with Connection(clusters[1]) as connection:
        # What could not be looked up is missing from the answer, which the plan says.
        found, _ = read_offsets_at(connection, instants(source, pair, times))
    return ByTime(times, found)
