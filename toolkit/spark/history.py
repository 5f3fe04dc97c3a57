"""
What runs of the fleet job found, as Delta tables below one folder or URL, without Java.

    ROOT/<table>   the tables of `schemas.RESULTS`, by day, with run_id, taken_at and attempt
    ROOT/log_ends  where logs ended: `schemas.LOG_ENDS`, like those tables
    ROOT/state     where the next run continues reading: `schemas.STATE`, see `read_state`
    ROOT/runs      a row for each complete run: run_id, taken_at, attempt

Tasks write files, and the driver commits them. Each attempt to store a run has an id, and readers
take the rows of the attempts in `runs`, which is written last: so a run appears as a whole or not
at all, and one that died half-way is written again. Two runs at the same time share no file.

Tables are divided by day alone. delta-rs cannot compact a partition whose value has a `~`, takes ""
for null, and a file system ends names at 255 bytes; each may be in the name of a cluster.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import PyFileSystem

from toolkit.errors import PrerequisiteMissing, StateFileError, UsageError
from toolkit.spark.arrow import as_columns, as_frame
from toolkit.spark.schemas import LOG_ENDS, RESULTS, STATE, TIME

HAS_DELTALAKE = find_spec("deltalake") is not None
if HAS_DELTALAKE:
    from deltalake import DeltaTable, Schema
    from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
    from deltalake.fs import DeltaStorageHandler
    from deltalake.transaction import AddAction, RemoveAction

T = TypeVar("T")

RUNS, STATE_TABLE, LOG_ENDS_TABLE = "runs", "state", "log_ends"
TAKEN_AT = pa.field("taken_at", TIME)
OF_A_RUN = [pa.field("run_id", pa.string()), TAKEN_AT]
ATTEMPT, DAY = pa.field("attempt", pa.string()), pa.field("day", pa.date32())
FILTERED = (pa.field("cluster", pa.string()), ATTEMPT)
SCHEMES = {"", "file", "s3", "s3a", "gs", "abfs", "abfss", "hdfs"}
# Of which column files have a minimum. Without this, what delta-rs gives to Arrow compares every
# other column with null, and a condition on one finds nothing.
STATISTICS = {"delta.dataSkippingStatsColumns": "cluster"}
LAG_DAYS = timedelta(days=30)
READ_FOR = timedelta(days=1)  # how long a file stays that readers may have begun to read
TRIES = 20
ROWS_AT_ONCE = 100_000  # of those that are put together in one row group


def check_root(root: str) -> None:
    """
    Refuse a folder or URL that cannot hold a history, before anything is started for it.

    Raises UsageError, and PrerequisiteMissing where the package that writes it is not installed.
    """
    _require_deltalake()
    url = urlsplit(root)
    if url.scheme not in SCHEMES:
        raise UsageError(
            f"the history {root} cannot be there: {url.scheme}:// is not supported",
            hint="a folder, s3://, gs://, abfs:// or hdfs://",
        )
    if url.scheme not in {"", "file"}:
        return
    folder = Path(unquote(url.path) if url.scheme else root)
    if re.search(r"[%\\]", str(folder)) or not str(folder).isprintable():
        raise UsageError(f"the history {root} cannot be there: a % or \\ is in its name")
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise UsageError(f"the history {root} cannot be there: {there} is not a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"the history {root} cannot be written: no permission for {there}")


def _require_deltalake() -> None:
    if not HAS_DELTALAKE:
        raise PrerequisiteMissing(
            "a history needs the Python package deltalake, which is not installed",
            hint="pip install 'offsetbook[history]'",
        )


def read_lag_history(root: str, groups: pd.DataFrame, *, until: datetime) -> pd.DataFrame:
    """
    Return the lag of some groups in the runs of `LAG_DAYS` up to a time.

    Columns: cluster, group, lag, unknown_lag_partitions, taken_at. `groups` has cluster and group.
    Only their rows are kept in memory, however long the history is.
    """
    names = ("cluster", "group", "lag", "unknown_lag_partitions")
    columns = pa.schema([*(RESULTS["groups"].field(name) for name in names), TAKEN_AT])
    if groups.empty:  # no cluster would mean all of them
        return as_frame(columns.empty_table())
    found = History(root).rows(
        "groups",
        columns,
        clusters=frozenset(groups["cluster"]),
        since=until - LAG_DAYS,
        before=until + timedelta(microseconds=1),
    )
    keep = pc.field("group").isin(pa.array(groups["group"], pa.string()))
    return as_frame(pa.concat_tables([columns.empty_table(), *(r.filter(keep) for r in found)]))


class HistoryRun(NamedTuple):
    """A complete run, and the attempt to store it that counts."""

    run_id: str
    taken_at: datetime  # aware UTC
    attempt: str

    @property
    def day(self) -> date:
        """The day of all its rows."""
        return self.taken_at.astimezone(UTC).date()


class NewFile(NamedTuple):
    """A file with rows of one table that is written and not committed."""

    table: str
    path: str  # below the table
    size: int
    stats: str  # as Delta has them: of numbers and names, what is smallest and largest


class TableFile:
    """A new file of a table, which no reader sees before it is committed."""

    def __init__(self, root: str, table: str, day: str) -> None:
        """Take the day, "" in a table that is not divided."""
        self._name, self._table = f"{root}/{table}", table
        self._path = f"{DAY.name}={day}/" * bool(day) + f"{uuid.uuid4().hex}.parquet"
        with naming(f"writing {self._name}"):  # on a worker the folder may be missing
            self._files = files_of(root, table)
        self._writer: pq.ParquetWriter | None = None
        self._clusters: set[str] = set()
        self._rows = 0

    def add(self, rows: pa.Table) -> None:
        """Write rows as a row group; raises StateFileError."""
        with naming(f"writing {self._name}"):
            if self._writer is None:
                self._stream = self._files.open_output_stream(self._path)
                self._writer = pq.ParquetWriter(
                    self._stream, rows.schema, compression="zstd", write_page_checksum=True
                )
            self._writer.write_table(rows)
        self._rows += rows.num_rows
        if "cluster" in rows.column_names:
            self._clusters.update(pc.unique(rows["cluster"]).to_pylist())

    def close(self) -> list[NewFile]:
        """Close the file; return the files to commit: none if no row was added."""
        if self._writer is None:
            return []
        with naming(f"writing {self._name}"):
            self._writer.close()
            self._stream.close()
            size = self._files.get_file_info(self._path).size
        stats: dict[str, Any] = {"numRecords": self._rows}
        if self._clusters:
            # Most files are of one cluster: reads of another cluster do not open them.
            ends = {"minValues": min(self._clusters), "maxValues": max(self._clusters)}
            stats |= {name: {"cluster": end} for name, end in ends.items()}
        return [NewFile(self._table, self._path, size, json.dumps({**stats, "nullCount": {}}))]


class RunFiles:
    """The files of one task of a run, one for each table."""

    def __init__(self, root: str, run: HistoryRun) -> None:
        self._root, self._run = root, run
        self._open: dict[str, TableFile] = {}

    def add(self, table: str, rows: pa.Table) -> None:
        """Write rows with a column `cluster`; raises StateFileError."""
        if rows.num_rows:
            stamp = self._run._asdict()
            for one in (*OF_A_RUN, ATTEMPT):
                same = pa.repeat(pa.scalar(stamp[one.name], one.type), rows.num_rows)
                rows = rows.append_column(one, same)
            if table not in self._open:
                self._open[table] = TableFile(self._root, table, self._run.day.isoformat())
            self._open[table].add(rows)

    def close(self) -> list[NewFile]:
        return [new for file in self._open.values() for new in file.close()]


class History:
    """The history below one folder or URL; every method raises StateFileError where it fails."""

    def __init__(self, root: str, tables: Mapping[str, pa.Schema] | None = None) -> None:
        """
        Take the folder, and the columns that each table has now: `schemas.RESULTS` and LOG_ENDS.

        Raises UsageError for what cannot hold a history, and PrerequisiteMissing.
        """
        check_root(root)
        # Tasks may run in another working directory.
        self.root = root.rstrip("/") if urlsplit(root).scheme else str(Path(root).absolute())
        tables = tables or {**RESULTS, LOG_ENDS_TABLE: LOG_ENDS}
        self._tables = {name: pa.schema([*of, *OF_A_RUN]) for name, of in tables.items()}
        state = pa.schema([*STATE, *OF_A_RUN])
        every = {**self._tables, STATE_TABLE: state, RUNS: pa.schema(OF_A_RUN)}
        self._stored = {name: pa.schema([*of, ATTEMPT, DAY]) for name, of in every.items()}

    def begin(self, run_id: str, taken_at: datetime) -> HistoryRun:
        """
        Begin to store a run: make sure of the tables, so that tasks may write files.

        A run without an id is called by its time.
        """
        for table in self._stored:
            self._again(partial(self._prepared, table))
        name = run_id or f"{taken_at:%Y%m%dT%H%M%S.%fZ}"
        return HistoryRun(name, taken_at.astimezone(UTC), uuid.uuid4().hex)

    def publish(self, run: HistoryRun, new: Sequence[NewFile], over: Collection[str] = ()) -> bool:
        """
        Make the files of a run visible, all at once; return whether it was not there before.

        `over` are files of the state that no run needs any more. Raises StateFileError where a file
        is not there: nobody could read the table any more.
        """
        if any(one.run_id == run.run_id for one in self.runs()):
            return False
        by_table: dict[str, list[NewFile]] = defaultdict(list)
        for one in new:
            by_table[one.table].append(one)
        for table, files in by_table.items():
            self._check_written(table, files)
        for table, files in sorted(by_table.items()):
            gone = over if table == STATE_TABLE else ()
            self._again(partial(self._append, table, files, gone))
        row = pa.Table.from_pylist([{**run._asdict(), "day": run.day}], schema=self._stored[RUNS])
        self._again(partial(self._insert, row))
        return any(one.attempt == run.attempt for one in self.runs())

    def runs(self) -> list[HistoryRun]:
        """Return the complete runs, oldest first."""
        delta = self.open(RUNS)
        if delta is None:
            return []
        with naming(f"reading {self.root}/{RUNS}"):
            columns = pa.schema([*OF_A_RUN, ATTEMPT])
            groups = self._row_groups(RUNS, paths_in(delta), columns)
            found = [HistoryRun(**row) for rows in groups for row in rows.to_pylist()]
        return sorted(found, key=lambda run: (run.taken_at, run.run_id))

    def rows(
        self,
        table: str,
        columns: pa.Schema,
        *,
        clusters: Collection[str] = (),
        since: datetime | None = None,
        before: datetime | None = None,
    ) -> Iterator[pa.Table]:
        """
        Yield columns of a table's rows: of some clusters or all, of complete runs of a time.

        Columns that rows do not have, because they are older, are null.
        """
        runs = [
            run
            for run in self.runs()
            if (not since or run.taken_at >= since) and (not before or run.taken_at < before)
        ]
        delta = self.open(table)  # after `runs`: it has all of their rows
        if delta is None or not runs:
            return
        filters: list[Any] = [("day", ">=", runs[0].day), ("day", "<=", runs[-1].day)]
        keep = pc.field("attempt").isin([run.attempt for run in runs])
        if clusters:
            filters += of_clusters(clusters)
            keep &= pc.field("cluster").isin(list(clusters))
        of_files = pa.schema([*columns, *(one for one in FILTERED if one not in columns)])
        with naming(f"reading {self.root}/{table}"):
            for rows in self._row_groups(table, paths_in(delta, filters), of_files):
                yield rows.filter(keep).select(columns.names)

    def compact(self, *, before: date) -> list[date]:
        """
        Put the files of each day before a date together; return the days of which this was done.

        Rows are the same before and after, for every reader. What died half-way is done by the next
        call. `expire` removes the small files a day later.
        """
        done = set()
        for table in (*self._tables, RUNS):
            delta = self.open(table)
            for day in sorted({_day_of(path) for path in paths_in(delta)} if delta else ()):
                if day < before.isoformat() and self._again(partial(self._compact, table, day)):
                    done.add(day)
        return [date.fromisoformat(day) for day in sorted(done) if day]

    def expire(self, *, keep_days: int, now: datetime) -> list[date]:
        """
        Remove days that are more than `keep_days` ago, and files that were unused for a day.

        Returns the days that were removed. Raises UsageError for less than one day.
        """
        if keep_days < 1:
            raise UsageError(f"keep_days is {keep_days}; at least one day must be kept")
        first = now.astimezone(UTC).date() - timedelta(days=keep_days)
        days = {run.day for run in self.runs() if run.day < first}
        # In this order: a run whose row is gone is no longer read.
        for table in (RUNS, *self._tables):
            self._again(partial(self._delete, table, f"day < '{first}'"))
        for table in self._stored:
            self.vacuum(table)
        return sorted(days)

    def vacuum(self, table: str) -> None:
        """Remove files that are not, or for a day no longer, in a table."""
        self._again(partial(self._vacuum, table))

    def _vacuum(self, table: str) -> None:
        if delta := self.open(table):
            with naming(f"cleaning {self.root}/{table}"):
                hours = int(READ_FOR / timedelta(hours=1))
                delta.vacuum(hours, dry_run=False, enforce_retention_duration=False, full=True)

    def open(self, table: str) -> DeltaTable | None:
        """Open a table; return None where there is none yet."""
        with naming(f"opening {self.root}/{table}"):
            try:
                return DeltaTable(_url(self.root, table))
            except TableNotFoundError:
                return None

    def _row_groups(
        self, table: str, paths: Sequence[str], columns: pa.Schema
    ) -> Iterator[pa.Table]:
        """Yield the row groups of files; columns that they lack are null."""
        files = files_of(self.root, table)
        for path in paths:
            with opened(files, path) as file:
                there = [name for name in columns.names if name in file.schema_arrow.names]
                for number in range(file.num_row_groups):
                    rows = file.read_row_group(number, there, use_threads=False)
                    yield as_columns(rows, columns)

    def _again(self, work: Callable[[], T]) -> T:
        """Do some work, once more where another writer was quicker."""
        for _ in range(TRIES):
            try:
                return work()
            except CommitFailedError:
                continue
        raise StateFileError(f"others write to {self.root} faster than this run")

    def _prepared(self, table: str) -> None:
        """Create a table, or give it the columns that it has got since."""
        columns, delta = self._stored[table], self.open(table)
        by, properties = ([], {}) if table == RUNS else ([DAY.name], STATISTICS)
        with naming(f"creating {self.root}/{table}"):
            if delta is None:
                url = _url(self.root, table)
                delta = DeltaTable.create(
                    url, columns, mode="ignore", partition_by=by, configuration=properties
                )
            there = {one.name: one.type for one in pa.schema(delta.schema().to_arrow())}
            for one in columns:
                if one.name in there and not _same(there[one.name], one.type):
                    raise StateFileError(
                        f"{table}.{one.name} of the history is {there[one.name]}, not {one.type}",
                        hint="another folder for the history",
                    )
            new = [one for one in columns if one.name not in there]
            if new:
                delta.alter.add_columns(Schema.from_arrow(pa.schema(new)).fields)

    def _check_written(self, table: str, files: Sequence[NewFile]) -> None:
        name = f"{self.root}/{table}"
        with naming(f"reading {name}"):
            found = files_of(self.root, table).get_file_info([one.path for one in files])
        for info in found:
            if not info.is_file:
                raise StateFileError(
                    f"{name} lacks {info.path}, which a worker has written: it does not see the "
                    "same folder as this machine",
                    hint="a folder or URL that Spark's workers and this machine share",
                )

    def _append(self, table: str, new: Sequence[NewFile], over: Collection[str]) -> None:
        with naming(f"writing {self.root}/{table}"):
            delta = DeltaTable(_url(self.root, table))
            there = set(paths_in(delta)) if over else set()
            _commit(delta, new, [path for path in over if path in there])

    def _insert(self, row: pa.Table) -> None:
        with naming(f"writing {self.root}/{RUNS}"):
            merge = DeltaTable(_url(self.root, RUNS)).merge(
                row, "old.run_id = new.run_id", source_alias="new", target_alias="old"
            )
            merge.when_not_matched_insert_all().execute()

    def _compact(self, table: str, day: str) -> bool:
        # Not Delta's own: two of them at once leave every row twice (delta-rs 1.6.6), because what
        # only moves rows is no conflict there. A change of data is.
        delta = self.open(table)
        if delta is None:
            return False
        with naming(f"compacting {self.root}/{table}"):
            paths = [one for one in paths_in(delta) if _day_of(one) == day]
            if len(paths) < 2:
                return False
            columns = pa.schema(delta.schema().to_arrow())
            columns = pa.schema([one for one in columns if not day or one.name != DAY.name])
            file, waiting = TableFile(self.root, table, day), [columns.empty_table()]
            for rows in self._row_groups(table, paths, columns):
                waiting.append(rows)
                if sum(one.num_rows for one in waiting) >= ROWS_AT_ONCE:
                    file.add(pa.concat_tables(waiting))
                    waiting = waiting[:1]
            if len(waiting) > 1:
                file.add(pa.concat_tables(waiting))
            _commit(delta, file.close(), paths)
        return True

    def _delete(self, table: str, predicate: str) -> None:
        if delta := self.open(table):
            with naming(f"removing old days of {self.root}/{table}"):
                delta.delete(predicate)


def of_clusters(names: Collection[str]) -> list[Any]:
    """Return what chooses files in which rows of some clusters may be."""
    # delta-rs takes "" for null, and no file has that.
    return [] if "" in names else [("cluster", "in", list(names))]


def files_of(root: str, table: str) -> PyFileSystem:
    """Return the files below a table, by paths below it, as delta-rs reaches them."""
    return PyFileSystem(DeltaStorageHandler(_url(root, table)))


@contextmanager
def opened(files: PyFileSystem, path: str) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file of a table, to be read by this thread alone."""
    # Delta's reader drops rows of files that lack statistics of a filtered column (1.6.6). Threads
    # of it, as of Arrow's datasets, use Python's files until the process ends, and may abort it.
    with (
        files.open_input_file(path) as source,
        pq.ParquetFile(source, pre_buffer=False, page_checksum_verification=True) as file,
    ):
        yield file


@contextmanager
def naming(doing: str) -> Iterator[None]:
    """
    Turn what delta-rs and Arrow raise into StateFileError; a lost race stays what it is.

    Raises PrerequisiteMissing where there is no delta-rs, as on a worker.
    """
    _require_deltalake()
    try:
        yield
    except CommitFailedError:
        raise
    except (DeltaError, OSError, ValueError, pa.ArrowException) as exc:
        lines = re.sub(r"\x1b\[[0-9;]*m", "", str(exc)).splitlines() or [repr(exc)]
        why = lines[0] if len(lines) == 1 else f"{lines[0]}: {lines[-1].strip(' ↳')}"
        raise StateFileError(f"{doing}: {why}") from exc


def _commit(delta: DeltaTable, new: Sequence[NewFile], gone: Collection[str]) -> None:
    """Add files to a table and remove others; CommitFailedError where those are removed already."""
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    actions: list[AddAction | RemoveAction] = [
        *(AddAction(one.path, one.size, _place(one.path), now_ms, True, one.stats) for one in new),
        *(RemoveAction(path, True, now_ms, None, _place(path)) for path in gone),
    ]
    by = delta.metadata().partition_columns
    delta.create_write_transaction(actions, "append", delta.schema(), by)


def paths_in(delta: DeltaTable, filters: Sequence[Any] = ()) -> list[str]:
    """Return the paths, below a table, of its files in which rows may match the filters."""
    name = delta.table_uri.rstrip("/").rpartition("/")[2]
    uris = delta.file_uris(file_pruning_predicate=list(filters) or None)
    return [uri.rpartition(f"/{name}/")[2] for uri in uris]


def _day_of(path: str) -> str:
    return path.partition("/")[0].removeprefix(f"{DAY.name}=") if "/" in path else ""


def _place(path: str) -> dict[str, str | None]:
    """Return the values of the columns by which a table is divided."""
    return {DAY.name: _day_of(path)} if _day_of(path) else {}


def _url(root: str, table: str) -> str:
    return f"{root}/{table}".rstrip("/")


def _same(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether types are the same but for the names of what is in lists."""
    if pa.types.is_list(one) and pa.types.is_list(other):
        return _same(one.value_type, other.value_type)
    return bool(one == other)
