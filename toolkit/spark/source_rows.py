"""Rows that the data source yields: `schemas.SOURCE_BLOCKS`, each with a block or a problem."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from toolkit.kafka_io.offsets_topic.commit_records import CommitKey
from toolkit.model import Cluster, Commit, Group
from toolkit.spark.packed_tables import pack
from toolkit.spark.schemas import COMMITS, GROUPS, SOURCE_BLOCKS, TAIL, WHOLE

FROM_LOG, FROM_ADMIN = "offsets topic", "admin"
PAST_STABLE = "offsets topic, past the last stable offset"


def block_batch(
    cluster: Cluster,
    number: int = WHOLE,
    *,
    read_to: Mapping[str, Any] | None = None,
    **tables: pa.Table,
) -> pa.RecordBatch:
    """Return a block: tables by their column, and how far an offsets partition was read."""
    packed = {name: pack(table) for name, table in tables.items()}
    row = {"cluster": cluster.name, "offsets_partition": number, "read_to": read_to, **packed}
    return pa.RecordBatch.from_pylist([row], schema=SOURCE_BLOCKS)


def problem_batches(cluster: Cluster, problems: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield each read error and its cause."""
    if problems:
        rows = [{"cluster": cluster.name, "problem": why} for why in problems]
        yield pa.RecordBatch.from_pylist(rows, schema=SOURCE_BLOCKS)


def tail_table(commits: frozenset[CommitKey], pending: frozenset[CommitKey]) -> pa.Table:
    """Return the keys of commits behind an open transaction: `schemas.TAIL`."""
    rows = [
        {
            "group": key.group_id,
            "topic": key.topic,
            "partition": key.partition,
            "pending": key in pending,
            "counts": key in commits,
        }
        for key in sorted(commits | pending)
    ]
    return pa.Table.from_pylist(rows, schema=TAIL)


def commits_by_admin(commits: Iterable[Commit]) -> pa.Table:
    """Return what the Admin protocol tells of commits: `schemas.COMMITS`."""
    rows = [
        {
            "group": commit.group_id,
            "topic": commit.topic,
            "partition": commit.partition,
            "committed": commit.offset,
            "leader_epoch": commit.leader_epoch,
            "metadata": commit.metadata,
            "pending": commit.pending,
            "source": FROM_ADMIN,
        }
        for commit in commits
    ]
    return pa.Table.from_pylist(rows, schema=pa.schema(COMMITS))


def groups_by_admin(groups: Iterable[Group]) -> pa.Table:
    """Return what the Admin protocol tells of groups: `schemas.GROUPS`."""
    rows = [
        {
            "group": group.group_id,
            "type": str(group.type),
            "protocol_type": group.protocol_type,
            "state": str(group.state),
            "members": len(group.members) if group.described else None,
            "epoch": group.epoch,
            "subscribed": sorted(group.subscribed_topics),
            "unreadable": group.unreadable_subscription,
            "is_held": any(member.is_holder for member in group.members),
        }
        for group in groups
    ]
    return pa.Table.from_pylist(rows, schema=pa.schema(GROUPS))
