"""
Convert between Arrow tables, pandas frames and Spark types.

Spark moves tables packed into single binary values, without converting them: turning hundreds of
thousands of wide rows into Spark's own form and back took several times as long as all the rules
together. Packed tables are moved, cached and spilled as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema as as_spark

from toolkit.spark.schemas import with_time

Row = Mapping[str, Any]

OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


def as_columns(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the columns of a schema in its order, cast to Spark's types; absent ones are null."""
    columns = [
        table[field.name].cast(field.type)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def as_frame(table: pa.Table, *, is_last_use: bool = False) -> pd.DataFrame:
    """
    Return a pandas frame in which integers and flags stay exact and nullable.

    With `is_last_use` each column of the table is freed as soon as it is converted.
    """
    time = pa.timestamp("ms", tz="UTC")  # Kafka's grain instead of Spark's
    fields = [field.with_type(with_time(field.type, time)) for field in table.schema]
    table = table.cast(pa.schema(fields), safe=False)
    frame: pd.DataFrame = table.to_pandas(
        types_mapper=nullable, split_blocks=is_last_use, self_destruct=is_last_use
    )
    return frame


def as_table(frame: pd.DataFrame, schema: pa.Schema) -> pa.Table:
    """Return the columns of a schema from a pandas frame."""
    names = [field.name for field in schema]
    return pa.Table.from_pandas(frame[names], schema=schema, preserve_index=False)


def nullable(kind: pa.DataType) -> pd.api.extensions.ExtensionDtype | None:
    """Return how pandas should hold an Arrow type: a missing integer must not become a float."""
    if pa.types.is_integer(kind):
        return pd.Int64Dtype()
    if pa.types.is_boolean(kind):
        return pd.BooleanDtype()
    return pd.Float64Dtype() if pa.types.is_floating(kind) else None


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
