"""
Pack tables into single binary values that Spark moves without converting.

Turning hundreds of thousands of wide rows into Spark's own form and back took several times as
long as all the rules together. Packed tables are moved, cached and spilled as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from toolkit.spark.schemas import as_spark

Row = Mapping[str, Any]

OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


def pack(table: pa.Table) -> bytes:
    """Return a table as one value."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=OPTIONS) as stream:
        stream.write_table(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def unpack(packed: bytes | None, of: pa.Schema) -> pa.Table:
    """Return the table in a value; an empty one for null."""
    if packed is None:
        return of.empty_table()
    return pa.ipc.open_stream(pa.py_buffer(packed)).read_all()


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """Yield the rows of batches one by one, because each may be large."""
    for batch in batches:
        for place in range(batch.num_rows):
            yield from batch.slice(place, 1).to_pylist()


def unpacked(frame: DataFrame, column: str, of: pa.Schema) -> DataFrame:
    """Return the rows of all tables that are packed in a column."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for row in rows_of(batches):
            yield from unpack(row[column], of).to_batches()

    return frame.select(column).mapInArrow(run, as_spark(of))


def unpack_all(packed: pa.Table, column: str, of: pa.Schema) -> pa.Table:
    """Return the same of a frame that was collected."""
    rows = rows_of(packed.select([column]).to_batches())
    return pa.concat_tables([of.empty_table(), *(unpack(row[column], of) for row in rows)])
