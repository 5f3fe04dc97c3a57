"""
Merge the schemas of history files written by different versions.

A column that a table has got since is null in older rows; one that it has lost is still there. A
column of which the type has changed has the wider of the two, if one holds all values of the other.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StructField,
    StructType,
)

from toolkit.errors import StateFileError

# Each kind with those of which it holds every value exactly.
HOLDS: dict[type[DataType], tuple[type[DataType], ...]] = {
    ShortType: (ByteType,),
    IntegerType: (ByteType, ShortType),
    LongType: (ByteType, ShortType, IntegerType),
    DoubleType: (ByteType, ShortType, IntegerType, FloatType),
}


def common_schema(table: str, schemas: Iterable[StructType]) -> StructType:
    """
    Return the columns of all schemas, in the order in which they first appear, all nullable.

    Raises StateFileError for a column with two types of which neither holds the other.
    """
    fields: dict[str, DataType] = {}
    for schema in schemas:
        for field in schema:
            known = fields.get(field.name, field.dataType)
            fields[field.name] = _wider(f"{table}.{field.name}", known, field.dataType)
    return StructType([StructField(name, kind) for name, kind in fields.items()])


def _wider(column: str, one: DataType, other: DataType) -> DataType:
    if isinstance(one, ArrayType) and isinstance(other, ArrayType):
        return ArrayType(_wider(column, one.elementType, other.elementType))
    if isinstance(one, StructType) and isinstance(other, StructType):
        return common_schema(column, (one, other))
    if isinstance(other, NullType) or type(other) in HOLDS.get(type(one), ()):
        return one
    if isinstance(one, NullType) or type(one) in HOLDS.get(type(other), ()):
        return other
    if one == other:
        return one
    raise StateFileError(
        f"{column} of the history was written as {one.simpleString()} and as "
        f"{other.simpleString()}, which cannot be one column",
        hint="rename the column",
    )
