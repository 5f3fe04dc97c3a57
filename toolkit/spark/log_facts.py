"""
The step that asks brokers where logs start and end, and when they reached the committed offsets.

Each cluster is asked once, in one task, for all its groups together. What it does not answer is a
problem in its own rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame

from toolkit.errors import ToolkitError
from toolkit.kafka_io.connect import Connection
from toolkit.kafka_io.log_offsets import read_log_offsets
from toolkit.kafka_io.log_times import LogTime, LogTimes, LookUp, points_around, read_log_times
from toolkit.kafka_io.record_times import read_first_records
from toolkit.model import Cluster, LogOffsets, TopicPartition
from toolkit.planning.lag import with_lag
from toolkit.planning.time_lag import earlier_ends, with_time_lag
from toolkit.spark.arrow import as_frame, as_table, on_partitions
from toolkit.spark.schemas import LOG_FACTS, PLACE, schema

PLACE_KEY = [field.name for field in PLACE]
NO_LOG = LogOffsets(None, None)

Step = Callable[[DataFrame], DataFrame]


def with_log_facts(
    clusters: Mapping[str, Cluster], *, window_s: float, with_past_ends: Step
) -> Step:
    """
    Return the step that adds where each commit's log starts and ends, and its lag in time.

    Adds the columns of `schemas.LOG_FACTS`. A partition that could not be asked for keeps nulls
    and says why in `log_problem`. Commits were read before, so that log ends are never behind them.
    `with_past_ends` adds to partitions where their logs ended at earlier times (`past_ends`), which
    tells the lag in time where brokers do not.
    """

    def read(table: pa.Table) -> pa.Table:
        found = [
            as_table(_log_facts(clusters[str(name)], part, window_s), schema(*LOG_FACTS))
            for name, part in as_frame(table).groupby("cluster")
        ]
        return pa.concat_tables(found)

    def step(commits: DataFrame) -> DataFrame:
        positions = commits.select(*PLACE_KEY, "committed").distinct()
        # Named once, so that each cluster has one task, however few rows there are.
        by_cluster = with_past_ends(positions).repartition(len(clusters), "cluster")
        facts = on_partitions(by_cluster, read, schema(*LOG_FACTS))
        return commits.join(facts, [*PLACE_KEY, "committed"], "left")

    return step


def _log_facts(cluster: Cluster, positions: pd.DataFrame, window_s: float) -> pd.DataFrame:
    """Ask one cluster about the logs of some positions; why it did not answer is in its rows."""
    positions = positions.reset_index(drop=True)
    pairs = zip(positions["topic"], positions["partition"], strict=True)
    places = [TopicPartition(topic, int(number)) for topic, number in pairs]
    offsets: dict[TopicPartition, set[int]] = defaultdict(set)
    for place, committed in zip(places, positions["committed"], strict=True):
        offsets[place].add(int(committed))
    logs: Mapping[TopicPartition, LogOffsets] = {}
    times = LogTimes({}, [], [], 0, 0)
    now = datetime.now(UTC)
    earlier = now - timedelta(seconds=window_s)
    try:
        with Connection(cluster) as connection:
            logs, problems = read_log_offsets(connection, places)
            why = {TopicPartition(p.topic or "", p.partition or 0): p.why for p in problems}
            now = datetime.now(UTC)
            earlier = now - timedelta(seconds=window_s)
            times = read_log_times(connection, offsets, logs, LookUp(now, at=(earlier,)))
    except ToolkitError as exc:
        why = {place: str(exc) for place in offsets if place not in logs}
    known = with_lag(_with_logs(positions, places, logs, why))
    unread = _first_unread(places, positions["committed"], logs)
    known["points"] = pd.Series(_points(unread, times), known.index, dtype="object")
    records = _records(cluster, times)
    found = [records.get(position, UNREAD) for position in unread]
    known["record_found"] = pd.array([one.found for one in found], "boolean")
    known["record_at"] = [one.at for one in found]
    timed = with_time_lag(known, now=now)
    asked = pd.Series([times.points.get(place, ()) for place in places], timed.index)
    ends = earlier_ends(asked, timed["log_end"], at=earlier)
    since = pd.Series(earlier, timed.index).where(ends.notna())
    return timed.assign(earlier_end=ends, earlier_at=since, log_read_at=now)


class _Record(NamedTuple):
    """What reading the first unread record told; None and NaT where it was not read."""

    found: bool | None
    at: datetime | None


UNREAD = _Record(None, None)


def _with_logs(
    positions: pd.DataFrame,
    places: Sequence[TopicPartition],
    logs: Mapping[TopicPartition, LogOffsets],
    why: Mapping[TopicPartition, str],
) -> pd.DataFrame:
    known = [logs.get(place, NO_LOG) for place in places]
    return positions.assign(
        log_start=pd.array([log.log_start for log in known], "Int64"),
        log_end=pd.array([log.log_end for log in known], "Int64"),
        last_stable=pd.array([log.last_stable for log in known], "Int64"),
        log_problem=[why.get(place, "") for place in places],
    )


def _first_unread(
    places: Sequence[TopicPartition],
    committed: Iterable[int],
    logs: Mapping[TopicPartition, LogOffsets],
) -> list[tuple[TopicPartition, int]]:
    """Return where reading would go on from each position."""
    return [
        (place, max(int(offset), logs.get(place, NO_LOG).log_start or 0))
        for place, offset in zip(places, committed, strict=True)
    ]


def _points(
    unread: Sequence[tuple[TopicPartition, int]], times: LogTimes
) -> list[tuple[LogTime, ...]]:
    """Return for each position the answers that tell all that is known about its record."""
    offsets: dict[TopicPartition, list[int]] = defaultdict(list)
    for place, offset in unread:
        offsets[place].append(offset)
    around = {
        place: points_around(times.points.get(place, ()), wanted)
        for place, wanted in offsets.items()
    }
    return [around[place][offset] for place, offset in unread]


def _records(cluster: Cluster, times: LogTimes) -> dict[tuple[TopicPartition, int], _Record]:
    """Read the records about which look-ups told too little, as far as we may and there is time."""
    if not times.unsettled:
        return {}
    try:
        found = read_first_records(cluster, times.unsettled)
    except ToolkitError:
        return {}  # what is known without them is known all the same
    return {position: _Record(at is not None, at) for position, at in found.items()}
