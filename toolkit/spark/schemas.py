"""The columns of every frame in the pipeline, declared once, as Arrow and as Spark see them."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

TIME = pa.timestamp("us", tz="UTC")

COMMIT_KEY = [
    pa.field("cluster", pa.string()),
    pa.field("group", pa.string()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int64()),
]
COMMIT_FIELDS = [
    *COMMIT_KEY,
    pa.field("committed", pa.int64()),
    pa.field("committed_at", TIME),  # null from the Admin protocol
    pa.field("source", pa.string()),  # "offsets topic" or "admin"
]
LOG_FIELDS = [
    pa.field("log_start", pa.int64()),
    pa.field("log_end", pa.int64()),
    pa.field("last_stable", pa.int64()),
    pa.field("log_problem", pa.string()),  # why the three are null
]

# A row is a commit, or a problem: then only cluster and problem are set.
COMMITS = pa.schema([*COMMIT_FIELDS, pa.field("problem", pa.string())])

LOG_OFFSETS = pa.schema(
    [field for field in COMMIT_KEY if field.name != "group"] + LOG_FIELDS,
)

PARTITION_LAG = pa.schema(
    [
        *COMMIT_FIELDS,
        *LOG_FIELDS,
        pa.field("lag", pa.int64()),
        pa.field("stable_lag", pa.int64()),
        pa.field("lost", pa.int64()),
        pa.field("position", pa.string()),
    ]
)

GROUP_LAG = pa.schema(
    [
        pa.field("cluster", pa.string()),
        pa.field("group", pa.string()),
        pa.field("topics", pa.int64()),
        pa.field("partitions", pa.int64()),
        pa.field("lag", pa.int64()),
        pa.field("lost", pa.int64()),
        pa.field("without_lag", pa.int64()),
        pa.field("worst_topic", pa.string()),
        pa.field("worst_partition", pa.int64()),
        pa.field("worst_lag", pa.int64()),
    ]
)


def as_spark(schema: pa.Schema) -> StructType:
    """Return Spark's form of an Arrow schema."""
    return from_arrow_schema(schema)
