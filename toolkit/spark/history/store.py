"""
What runs found, kept as Parquet by cluster and day, on any file system that Spark knows.

    ROOT/<table>/cluster=<name>/day=<YYYY-MM-DD>/part=<name>/*.parquet
    ROOT/published/*.json     which parts there are: see `history_parts`

How it is made safe: each writer writes into folders of its own that nobody knows of yet, first
aside and then in their place, and publishes them all by one small file, written last. A reader
reads what is published and nothing else. So a run is there as a whole or not at all; one that died
half-way leaves folders that are never read, and is simply written again; and two runs at the same
time touch no file in common. Spark's own ways do less: when two jobs append to one folder, the one
that ends first removes the other's `_temporary`, and neither that nor a dynamic overwrite of
partitions makes more than one table, or more than one partition, appear at once. A single file
appears at once on local disks, HDFS and S3 alike.

What no reader should see any more is removed a day later, for readers that had begun before.
Cluster names stand in folder names escaped (`~` and two digits for each byte that is no letter,
digit, `.`, `_` or `-`); what is read as `cluster` is a column in the files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from urllib.parse import quote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - how everybody knows it
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from toolkit.errors import UsageError
from toolkit.spark.history.files import HistoryFiles
from toolkit.spark.history.parts import (
    PUBLISHED,
    HistoryRun,
    Part,
    PartTable,
    begun_at,
    new_part_name,
    place,
    publish_day,
    publish_run,
    read_parts,
    that_count,
    withdraw,
)
from toolkit.spark.history.schema_changes import common_schema
from toolkit.spark.state_versions import FOLDER as STATE

UNFINISHED = "unfinished"
RESERVED = {UNFINISHED, PUBLISHED, STATE}
READ_FOR = timedelta(days=1)  # how long something is kept that readers may have begun to read
OF_A_RUN = (StructField("run_id", StringType()), StructField("taken_at", TimestampType()))
COMMIT_KEY = ("cluster", "group", "topic", "partition")
# Longer names are cut: clusters may share a folder, which their rows tell apart.
LONGEST_NAME = 150
FOLDER = (
    "left(if(coalesce(cluster, '') = '', '~', replace(replace(replace("
    f"url_encode(cluster), '%', '~'), '*', '~2A'), '+', '~20')), {LONGEST_NAME})"
)


class History:
    """The history below one folder; every method raises StateFileError where files refuse."""

    def __init__(self, session: SparkSession, root: str, tables: Mapping[str, StructType]) -> None:
        """
        Take the folder, as a path or URL, and the columns that each table has now.

        Every table needs a column `cluster`; `run_id` and `taken_at` are added to what is read.
        Raises UsageError for a table whose name cannot be a folder of its own.
        """
        for table in tables:
            if not re.fullmatch(r"[a-z][a-z0-9_]*", table) or table in RESERVED:
                raise UsageError(f"invalid name of a history table: {table!r}")
        self._session = session
        self._files = HistoryFiles(session, root)
        self._tables = {
            name: StructType([*schema.fields, *OF_A_RUN]) for name, schema in tables.items()
        }

    def write(self, run_id: str, taken_at: datetime, frames: Mapping[str, DataFrame]) -> bool:
        """
        Keep what a run found: all of it, or nothing if this raises or dies.

        Returns False, and changes nothing, where this run is there already: the first that was
        complete stays. `taken_at` is aware; its day in UTC is the day of all its rows. A frame's
        columns are brought into the table's form, see `DataFrame.to`.
        """
        if any(run.run_id == run_id for run in self.runs()):
            return False
        for name in frames:
            self._known(name)
        day, name = taken_at.astimezone(UTC).date(), new_part_name()
        stamped = {
            table: frame.withColumns({"run_id": F.lit(run_id), "taken_at": F.lit(taken_at)}).to(
                self._tables[table]
            )
            for table, frame in frames.items()
        }
        tables = self._put(name, day, stamped)
        run = HistoryRun(run_id, taken_at.astimezone(UTC))
        return publish_run(self._files, Part(name, day, (run,), tables))

    def runs(self) -> list[HistoryRun]:
        """Return the runs that are there, oldest first."""
        found = {run for part in that_count(read_parts(self._files)) for run in part.runs}
        return sorted(found, key=lambda run: (run.taken_at, run.run_id))

    def read(
        self,
        table: str,
        *,
        clusters: Collection[str] = (),
        since: datetime | None = None,
        before: datetime | None = None,
    ) -> DataFrame:
        """
        Return a table's rows with run_id and taken_at: of some clusters or all, of some time.

        Its columns are those of the table now, null in rows that are older than the column, then
        those that it had once; types are the widest that were written. The frame stays readable
        for a day, even if days are put together or removed meanwhile.
        """
        parts = self._parts(table, since, before)
        frame = self._frame(table, parts, clusters)
        if clusters:
            frame = frame.where(F.col("cluster").isin(list(clusters)))
        if since:
            frame = frame.where(F.col("taken_at") >= F.lit(since))
        return frame.where(F.col("taken_at") < F.lit(before)) if before else frame

    def latest(
        self, table: str, *, since: datetime, before: datetime, keys: Sequence[str] = COMMIT_KEY
    ) -> DataFrame:
        """
        Return for each key where the log ended, and what was highest, when last looked at.

        Only runs from `since` to just before `before` count, and rows with a known log end. The
        columns are the keys, earlier_at, earlier_end and earlier_max_committed.
        """
        rows = self.read(table, since=since, before=before).where("log_end is not null")
        newest = F.max(F.struct("taken_at", "log_end", "max_committed")).alias("newest")
        return (
            rows.groupBy(*keys)
            .agg(newest)
            .select(
                *keys,
                F.col("newest.taken_at").alias("earlier_at"),
                F.col("newest.log_end").alias("earlier_end"),
                F.col("newest.max_committed").alias("earlier_max_committed"),
            )
        )

    def compact(self, *, before: date) -> list[date]:
        """
        Put the parts of each day before a date together, one file for each cluster and table.

        Returns the days of which this was done. A day's rows are the same before and after, for
        every reader at every moment; what died half-way is done by the next call. `expire` removes
        the small files a day later.
        """
        parts = that_count(read_parts(self._files))
        days = sorted({part.day for part in parts if part.day < before})
        return [day for day in days if self._compact([part for part in parts if part.day == day])]

    def expire(self, *, keep_days: int, now: datetime) -> list[date]:
        """
        Remove days that are more than `keep_days` ago, and a day later what nobody reads any more.

        Returns the days that were removed. Raises UsageError for less than one day.
        """
        if keep_days < 1:
            raise UsageError(f"keep_days is {keep_days}; at least one day must be kept")
        first = now.astimezone(UTC).date() - timedelta(days=keep_days)
        parts = read_parts(self._files)
        counting = {part.name for part in that_count(parts)}
        long_ago = [part for part in parts if part.begun_at < now - READ_FOR]
        unread = {name for part in long_ago for name in part.replaces}
        over = [part for part in parts if part.name in unread]
        old = [part for part in parts if part.day < first]
        # What was put together must not come to count again when the part that did it goes.
        withdraw(self._files, [part for part in (*over, *old) if part.name not in counting])
        withdraw(self._files, [part for part in old if part.name in counting])
        gone = {part.name for part in (*over, *old)}
        self._sweep({part.name for part in parts} - gone, gone, now)
        return sorted({part.day for part in old})

    def _sweep(self, there: set[str], gone: set[str], now: datetime) -> None:
        """Remove the folders of parts that are gone, and what was never published for a day."""

        def over(name: str) -> bool:
            with suppress(ValueError):
                return name in gone or (name not in there and begun_at(name) < now - READ_FOR)
            return False  # not ours

        for name in filter(over, self._files.sizes(UNFINISHED)):
            self._files.remove(f"{UNFINISHED}/{name}")
        for table in self._files.sizes("."):
            if table not in RESERVED:
                for path in self._files.find(f"{table}/cluster=*/day=*/part=*"):
                    if over(path.rpartition("part=")[2]):
                        self._files.remove(path)
                        self._files.remove_if_empty(path.rpartition("/")[0])

    def _put(self, name: str, day: date, frames: Mapping[str, DataFrame]) -> dict[str, PartTable]:
        """Write a part's rows into folders of its own, which nobody knows of yet."""
        tables = {}
        for table, frame in frames.items():
            aside = f"{UNFINISHED}/{name}/{table}"
            # All rows of a cluster in one task make one file.
            placed = frame.withColumn("folder_", F.expr(FOLDER)).repartition("folder_")
            placed.write.partitionBy("folder_").parquet(self._files.url(aside))
            folders = []
            for written in self._files.sizes(aside):
                if written.startswith("folder_="):
                    folders.append(f"cluster={written.removeprefix('folder_=')}")
                    self._files.move(f"{aside}/{written}", place(table, folders[-1], day, name))
            tables[table] = PartTable(frame.schema.json(), tuple(folders))
        self._files.remove(f"{UNFINISHED}/{name}")
        return tables

    def _compact(self, parts: Sequence[Part]) -> bool:
        if len(parts) < 2:
            return False
        name, day = new_part_name(), parts[0].day
        tables = {table for part in parts for table in part.tables}
        part = Part(
            name,
            day,
            tuple(run for part in parts for run in part.runs),
            self._put(name, day, {table: self._frame(table, parts) for table in sorted(tables)}),
            # Also what these had replaced: it must not count again once they are removed.
            tuple({part.name for part in parts}.union(*(part.replaces for part in parts))),
            1 + max(part.generation for part in parts),
        )
        return publish_day(self._files, part)

    def _parts(self, table: str, since: datetime | None, before: datetime | None) -> list[Part]:
        self._known(table)
        first = since.astimezone(UTC).date() if since else date.min
        last = before.astimezone(UTC).date() if before else date.max
        parts = that_count(read_parts(self._files))
        return [part for part in parts if first <= part.day <= last]

    def _frame(
        self, table: str, parts: Sequence[Part], clusters: Collection[str] = ()
    ) -> DataFrame:
        having = [part for part in parts if table in part.tables]
        written = {part.tables[table].schema: StructType() for part in having}
        for text in written:
            written[text] = StructType.fromJson(json.loads(text))
        now = [self._tables[table]] if table in self._tables else []
        columns = common_schema(table, [*now, *written.values()])
        folders = {folder_of(cluster) for cluster in clusters}
        frames = []
        for text, schema in written.items():
            places = [
                self._files.url(path)
                for part in having
                if part.tables[table].schema == text
                for folder, path in part.places(table)
                if not folders or folder in folders
            ]
            if places:
                frames.append(self._session.read.schema(schema).parquet(*places).to(columns))
        if not frames:
            return self._session.createDataFrame([], columns)
        return reduce(DataFrame.union, frames)

    def _known(self, table: str) -> None:
        if table not in self._tables:
            known = ", ".join(sorted(self._tables))
            raise UsageError(f"the history has no table {table!r}", hint=f"use one of {known}")


def folder_of(cluster: str) -> str:
    """Return the folder of a cluster's rows: what `FOLDER` says, for one name."""
    quoted = quote(cluster, safe="._-", errors="replace").replace("~", "%7E").replace("%", "~")
    return f"cluster={(quoted or '~')[:LONGEST_NAME]}"
