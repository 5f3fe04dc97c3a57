"""
Pipeline step: read log offsets and the timestamps of committed offsets from the brokers.

Each cluster is asked once, in one task, for all its groups together. What it does not answer is a
problem in its own rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - how everybody knows it

from toolkit.errors import ToolkitError
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.groups.earlier_topics import WHY as EARLIER_TOPIC
from toolkit.kafka_io.groups.earlier_topics import is_of_earlier_topic, read_topic_ids
from toolkit.kafka_io.logs.log_offsets import read_log_offsets
from toolkit.kafka_io.logs.offset_time_lookup import (
    LogTime,
    LogTimes,
    TimeLookup,
    points_around,
    read_log_times,
)
from toolkit.kafka_io.logs.record_times import read_first_records
from toolkit.model import Cluster, LogOffsets, TopicPartition
from toolkit.model.records import FirstRecord
from toolkit.planning.lag.lag import with_lag
from toolkit.planning.lag.time_lag import earlier_ends, with_time_lag
from toolkit.spark.arrow import as_frame, as_table
from toolkit.spark.cluster_facts import a_task_each
from toolkit.spark.hold_facts import holds_in
from toolkit.spark.packed_tables import Row, pack, rows_of, unpack
from toolkit.spark.schemas import (
    BLOCKS_WITH_LOG_FACTS,
    HELD_GROUPS,
    LOG_FACTS,
    PAST_ENDS,
    PLACE,
    POSITIONS,
    as_spark,
    schema,
)

PLACE_KEY = [field.name for field in PLACE]
FACT_NAMES = [field.name for field in LOG_FACTS]
NO_LOG = LogOffsets(None, None)
# Look-ups tell nothing of the last records of a log, which most groups are at.
MOST_READ = 5_000


def ask_brokers(
    decoded: DataFrame,
    clusters: Mapping[str, Cluster],
    *,
    look_back_s: Sequence[float],
    past_ends: DataFrame,
) -> DataFrame:
    """
    Ask for log start, log end and time lag of each position: `schemas.BLOCKS_WITH_LOG_FACTS`.

    `decoded` are blocks as in `schemas.DECODED`: of each cluster one task asks for all of them
    together. A partition that could not be asked for keeps nulls and says why in `log_problem`.
    Commits were read before, so that log ends are never behind them. `past_ends` (cluster, and
    packed PLACE and past_ends) tells where logs ended at earlier times, which tells the lag in time
    where brokers do not; `look_back_s` says how long ago it is asked where they ended.
    """
    positions = decoded.select("cluster", "offsets_partition", "positions", "held_groups")
    with_ends = positions.join(F.broadcast(past_ends), "cluster", "left")

    def ask(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        blocks: dict[str, list[Row]] = defaultdict(list)
        for row in rows_of(batches):
            blocks[row["cluster"]].append(row)
        for name, rows in blocks.items():
            yield from _blocks_with_log_facts(clusters[name], rows, look_back_s)

    return a_task_each(with_ends, clusters).mapInArrow(ask, as_spark(BLOCKS_WITH_LOG_FACTS))


def _blocks_with_log_facts(
    cluster: Cluster, blocks: Sequence[Row], look_back_s: Sequence[float]
) -> Iterator[pa.RecordBatch]:
    """Yield for each block of a cluster what was found out about its positions."""
    tables = [unpack(block["positions"], POSITIONS) for block in blocks]
    positions = as_frame(pa.concat_tables(tables)).drop_duplicates(ignore_index=True)
    ends = as_frame(unpack(blocks[0]["past_ends"], PAST_ENDS))
    known = positions.merge(ends, on=PLACE_KEY[1:], how="left").assign(cluster=cluster.name)
    facts = _log_facts(cluster, known, look_back_s) if len(known) else known
    held = [unpack(block["held_groups"], schema(*HELD_GROUPS)) for block in blocks]
    # Few: a block looks for its own.
    holds, holds_unread = map(pack, holds_in(cluster, pa.concat_tables(held)))
    for block, table in zip(blocks, tables, strict=True):
        mine = as_frame(table).merge(facts, on=POSITIONS.names, how="left")
        row = {name: block[name] for name in ("cluster", "offsets_partition")}
        row["log_facts"] = pack(as_table(mine.reindex(columns=FACT_NAMES), schema(*LOG_FACTS)))
        row |= {"holds": holds, "holds_unread": holds_unread}
        yield pa.RecordBatch.from_pylist([row], schema=BLOCKS_WITH_LOG_FACTS)


def _log_facts(
    cluster: Cluster, positions: pd.DataFrame, look_back_s: Sequence[float]
) -> pd.DataFrame:
    """Ask one cluster about the logs of some positions; why it did not answer is in its rows."""
    positions = positions.reset_index(drop=True)
    pairs = zip(positions["topic"], positions["partition"], strict=True)
    places = [TopicPartition(topic, int(number)) for topic, number in pairs]
    offsets: dict[TopicPartition, set[int]] = defaultdict(set)
    for place, committed in zip(places, positions["committed"], strict=True):
        if not pd.isna(committed):
            offsets[place].add(int(committed))
    logs: Mapping[TopicPartition, LogOffsets] = {}
    times = LogTimes({}, [], [], 0, 0)
    ids: Mapping[str, str] = {}
    now = _in_whole_milliseconds(datetime.now(UTC))
    instants: Sequence[datetime] = ()
    try:
        with Connection(cluster) as connection:
            ids = read_topic_ids(connection, positions["topic"][positions["topic_id"].notna()])
            logs, problems = read_log_offsets(connection, places)
            why = {TopicPartition(p.topic or "", p.partition or 0): p.why for p in problems}
            now = _in_whole_milliseconds(datetime.now(UTC))
            instants = [now - timedelta(seconds=ago_s) for ago_s in look_back_s]
            times = read_log_times(connection, offsets, logs, TimeLookup(now, at=tuple(instants)))
    except ToolkitError as exc:
        why = {place: str(exc) for place in offsets if place not in logs}
    known = with_lag(_without_earlier_topics(_with_logs(positions, places, logs, why), ids))
    unread = _first_unread(places, positions["committed"], logs)
    known["points"] = pd.Series(_points(unread, times), known.index, dtype="object")
    records = _records(cluster, times, logs)
    found = [records.get(position) for position in unread]
    known["record_found"] = pd.array([one and one.found for one in found], "boolean")
    known["record_at"] = [one and one.at for one in found]
    timed = with_time_lag(known, now=now).assign(log_read_at=now)
    return _with_earlier(timed, places, logs, instants, times)


def _with_earlier(
    frame: pd.DataFrame,
    places: Sequence[TopicPartition],
    logs: Mapping[TopicPartition, LogOffsets],
    instants: Sequence[datetime],
    times: LogTimes,
) -> pd.DataFrame:
    """Add where logs ended at earlier instants: at the first one, and at all as lists."""
    each = list(dict.fromkeys(places))
    ends = pd.Series(pd.array([logs.get(place, NO_LOG).log_end for place in each], "Int64"))
    points = pd.Series([times.points.get(place, ()) for place in each], dtype="object")
    found = [earlier_ends(points, ends, at=at).tolist() for at in instants]
    past = {
        place: [(at, end) for at, end in zip(instants, told, strict=True) if not pd.isna(end)]
        for place, *told in zip(each, *found, strict=True)
    }
    rows = [past[place] for place in places]
    first = [row[0] if row and row[0][0] == instants[0] else (None, None) for row in rows]
    return frame.assign(
        earlier_at=pd.Series([at for at, _ in first], frame.index, "datetime64[ms, UTC]"),
        earlier_end=pd.array([end for _, end in first], "Int64"),
        past_at=pd.Series([[at for at, _ in row] for row in rows], frame.index, "object"),
        past_end=pd.Series([[end for _, end in row] for row in rows], frame.index, "object"),
    )


def _in_whole_milliseconds(at: datetime) -> datetime:
    """Return the time with Kafka's grain, so that an answer is found by what was asked."""
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


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


def _without_earlier_topics(known: pd.DataFrame, ids: Mapping[str, str]) -> pd.DataFrame:
    """Say of commits of an earlier topic of the same name that nothing is known of their log."""
    pairs = zip(known["topic"], known["topic_id"].where(known["topic_id"].notna(), ""), strict=True)
    earlier = pd.Series([is_of_earlier_topic(topic, then, ids) for topic, then in pairs])
    known.loc[earlier, ["log_start", "log_end", "last_stable"]] = pd.NA
    known.loc[earlier, "log_problem"] = EARLIER_TOPIC
    return known


def _first_unread(
    places: Sequence[TopicPartition],
    committed: Iterable[int],
    logs: Mapping[TopicPartition, LogOffsets],
) -> list[tuple[TopicPartition, int]]:
    """Return where reading would go on from each position."""
    return [
        (place, max(0 if pd.isna(offset) else int(offset), logs.get(place, NO_LOG).log_start or 0))
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


def _records(
    cluster: Cluster, times: LogTimes, logs: Mapping[TopicPartition, LogOffsets]
) -> dict[tuple[TopicPartition, int], FirstRecord]:
    """
    Read the records about which look-ups told too little, as far as we may and there is time.

    Aborted records count for nothing where no transaction is open; elsewhere it is not decided yet
    which records are committed.
    """
    found: dict[tuple[TopicPartition, int], FirstRecord] = {}
    settled = {place for place, log in logs.items() if log.last_stable == log.log_end}
    for committed in (True, False):
        wanted = [one for one in times.unsettled[:MOST_READ] if (one[0] in settled) is committed]
        # What is known without them is known all the same.
        with suppress(ToolkitError):
            if wanted:
                found |= read_first_records(cluster, wanted, most=MOST_READ, committed=committed)
    return found
