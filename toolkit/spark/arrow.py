"""Convert between Arrow tables, pandas frames and Spark types."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa


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
    table = in_milliseconds(table)
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


def in_milliseconds(table: pa.Table) -> pa.Table:
    """Return a table with Kafka's grain of time instead of Spark's."""
    fields = [field.with_type(_grained(field.type)) for field in table.schema]
    return table.cast(pa.schema(fields), safe=False)


def _grained(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("ms", tz="UTC")
    if pa.types.is_list(kind):
        return pa.list_(_grained(kind.value_type))
    return kind
