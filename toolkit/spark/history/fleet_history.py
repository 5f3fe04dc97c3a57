"""What one run of the fleet job takes from the runs before it, and leaves for the next."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - how everybody knows it

from toolkit.spark.arrow import as_columns, as_frame
from toolkit.spark.history.store import History
from toolkit.spark.packed_tables import pack
from toolkit.spark.read_state import (
    PartitionReadResult,
    ReadState,
    collect_reads,
    load_state,
    merged,
    save_state,
)
from toolkit.spark.schemas import PAST_ENDS, PLACE, RESULTS, as_spark, schema

PLACE_KEY = [field.name for field in PLACE]
TABLES = {name: as_spark(columns) for name, columns in RESULTS.items()}
# How far back log ends are taken from the history, and how many: it is only a second witness.
LOOK_BACK = timedelta(days=2)
MOST_ENDS = 50


def open_history(session: SparkSession, root: str) -> History:
    """Return the history below a folder or URL, with the tables of the fleet job."""
    return History(session, root, TABLES)


def read_fleet_history(
    session: SparkSession, root: str, table: str, *, since: datetime | None = None
) -> pd.DataFrame:
    """
    Return the rows of a table of the history, with run_id and taken_at.

    Tables: those of `schemas.RESULTS`. Raises UsageError for another.
    """
    return as_frame(open_history(session, root).read(table, since=since).toArrow())


class FleetHistory:
    """The history of one run; without a folder there is none, and everything is read anew."""

    def __init__(
        self, session: SparkSession, root: str | None, clusters: Collection[str], *, full: bool
    ) -> None:
        """Look at what former runs left; `full` leaves it alone and only adds to it."""
        self._session, self._root = session, root
        self._history = open_history(session, root) if root else None
        self.reads: list[PartitionReadResult] = []
        self.state = ReadState({}, None, {})
        if root and not full:
            self.state = load_state(session, root, clusters)

    @property
    def problems(self) -> list[tuple[str, str]]:
        """Why something that was left is not used: cluster, problem."""
        return sorted(self.state.not_used.items())

    def merged(self, read: DataFrame, now: datetime) -> DataFrame:
        """Add what is known from former runs to what was read since: `schemas.READ_BLOCKS`."""
        self.reads = collect_reads(read)
        known = merged(self.state, read, self.reads).drop("past_ends")
        return known.join(F.broadcast(self._past_ends(now)), "cluster", "left")

    @property
    def read_on(self) -> dict[str, datetime]:
        """Of each cluster that was not read anew, when the reading before this one was made."""
        found: dict[str, datetime] = {}
        for read in self.reads:
            if not read.why_full:
                at = self.state.points[read.cluster][read.number].read_at
                found[read.cluster] = max(at, found.get(read.cluster, at))
        return found

    def _past_ends(self, now: datetime) -> DataFrame:
        """Return where logs ended when they were looked at last: cluster, packed `PAST_ENDS`."""
        if self._history is None:
            return self._session.createDataFrame(PACKED_ENDS.empty_table())
        rows = self._history.read("partitions", since=now - LOOK_BACK, before=now)
        looks = rows.where("log_end is not null").select(
            *PLACE_KEY, F.struct(F.col("log_read_at").alias("at"), "log_end").alias("look")
        )
        newest_first = F.sort_array(F.collect_set("look"), asc=False)
        ends = looks.groupBy(*PLACE_KEY).agg(F.slice(newest_first, 1, MOST_ENDS).alias("past_ends"))
        return ends.groupBy("cluster").applyInArrow(_packed_ends, as_spark(PACKED_ENDS))

    def save(
        self, run_id: str, taken_at: datetime, frames: Mapping[str, DataFrame], read: DataFrame
    ) -> None:
        """
        Leave the results of a run, unless they are there already, and where to go on reading.

        A run without an id is called by its time.
        """
        if self._history is not None and self._root is not None:
            # In this order: what a run that dies in between has read is read again by the next.
            self._history.write(run_id or f"{taken_at:%Y%m%dT%H%M%S.%fZ}", taken_at, frames)
            save_state(self._session, self._root, read, self.reads)


PACKED_ENDS = schema(pa.field("cluster", pa.string()), pa.field("past_ends", pa.binary()))


def _packed_ends(ends: pa.Table) -> pa.Table:
    packed = pack(as_columns(ends, PAST_ENDS))
    row = {"cluster": ends["cluster"][0].as_py(), "past_ends": packed}
    return pa.Table.from_pylist([row], schema=PACKED_ENDS)
