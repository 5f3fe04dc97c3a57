"""The rows that tasks of the data source yield: `schemas.READ`, of which each has one struct."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from toolkit.model import Cluster, Commit, Group
from toolkit.spark.arrow import as_columns
from toolkit.spark.schemas import READ

FROM_LOG, FROM_ADMIN = "offsets topic", "admin"
ROWS_PER_BATCH = 50_000


def struct_batches(
    cluster: Cluster, name: str, table: pa.Table, *, number: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield a table as the struct column `name`, of an offsets partition where there is one."""
    kind = READ.field(name).type
    for batch in as_columns(table, pa.schema(list(kind))).to_batches(max_chunksize=ROWS_PER_BATCH):
        columns = {
            "cluster": pa.repeat(cluster.name, len(batch)),
            name: pa.StructArray.from_arrays(batch.columns, fields=list(kind)),
        }
        if number is not None:
            columns["offsets_partition"] = pa.repeat(pa.scalar(number, pa.int64()), len(batch))
        yield _batch(columns, len(batch))


def row_batches(
    cluster: Cluster, name: str, rows: Sequence[Mapping[str, Any]], *, number: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield some rows as the struct column `name`."""
    table = pa.Table.from_pylist(list(rows), schema=pa.schema(list(READ.field(name).type)))
    return struct_batches(cluster, name, table, number=number)


def problem_batches(cluster: Cluster, problems: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield what could not be read, and why."""
    if problems:
        columns = {
            "cluster": pa.repeat(cluster.name, len(problems)),
            "problem": pa.array(problems, pa.string()),
        }
        yield _batch(columns, len(problems))


def _batch(columns: Mapping[str, pa.Array], rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            columns[field.name] if field.name in columns else pa.nulls(rows, field.type)
            for field in READ
        ],
        schema=READ,
    )


def commit_row(commit: Commit) -> dict[str, Any]:
    """Return what the Admin protocol tells of a commit."""
    return {
        "group": commit.group_id,
        "topic": commit.topic,
        "partition": commit.partition,
        "committed": commit.offset,
        "leader_epoch": commit.leader_epoch,
        "metadata": commit.metadata,
        "pending": commit.pending,
        "source": FROM_ADMIN,
    }


def group_row(group: Group) -> dict[str, Any]:
    """Return what the Admin protocol tells of a group."""
    return {
        "group": group.group_id,
        "type": str(group.type),
        "protocol_type": group.protocol_type,
        "state": str(group.state),
        "members": len(group.members) if group.described else None,
        "epoch": group.epoch,
        "subscribed": sorted(group.subscribed_topics),
        "unreadable": group.unreadable_subscription,
    }
