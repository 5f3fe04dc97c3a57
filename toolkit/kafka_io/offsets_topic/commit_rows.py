"""The committed offsets in LATEST as a table."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa

from toolkit.kafka_io.logs.byte_columns import column
from toolkit.kafka_io.offsets_topic.decode_commits import (
    commit_keys,
    commit_values,
    scan_commit_values,
)
from toolkit.kafka_io.offsets_topic.latest_records import TIME, record_types, times
from toolkit.kafka_io.offsets_topic.partitions import LEGACY_COMMIT, OFFSET_COMMIT_TYPES

COMMITS = pa.schema(
    [
        ("group", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int64()),
        ("committed", pa.int64()),  # the next record to read
        ("leader_epoch", pa.int64()),
        ("metadata", pa.string()),
        ("committed_at", TIME),  # null: a time that no calendar has
        ("expire_at", TIME),  # only if an old client set a retention
        ("topic_id", pa.string()),  # as Kafka's tools write it
        ("record_offset", pa.int64()),
        ("recent_at", pa.list_(TIME)),
        ("recent_offset", pa.list_(pa.int64())),
        ("max_committed", pa.int64()),
        ("max_committed_at", TIME),
    ]
)
CARRIED = ("record_offset", "recent_at", "recent_offset", "max_committed", "max_committed_at")


def decode_commits(latest: pa.Table) -> tuple[pa.Table, Counter[str]]:
    """
    Return the offsets that LATEST holds, columns `COMMITS`, and how many are malformed by why.

    Tombstones and records of other types are passed over.
    """
    kinds = record_types(latest)
    rows = np.isin(kinds, [*OFFSET_COMMIT_TYPES])
    if np.any(kinds == LEGACY_COMMIT):
        rows &= ~_superseded(latest, rows)
    rows &= latest["value"].is_valid().to_numpy()
    commits = latest.filter(pa.array(rows))
    keys = commit_keys(commits["key"])
    scan = scan_commit_values(
        commits["value"], np.ones(len(commits), bool), kinds[rows] == LEGACY_COMMIT
    )
    values = commit_values(scan)
    columns = {
        "group": keys.groups,
        "topic": keys.topics,
        "partition": pa.array(keys.partitions),
        "committed": pa.array(scan.offsets),
        "leader_epoch": pa.array(values.epochs, mask=values.epochs == -1),
        "metadata": values.metadata,
        "committed_at": times(scan.times_ms),
        "expire_at": times(values.expires_ms),
        "topic_id": values.topic_ids,
        **{name: commits[name] for name in CARRIED},
    }
    table = pa.table([columns[name] for name in COMMITS.names], schema=COMMITS)
    return table.filter(pa.array(keys.decoded & scan.decoded)), keys.malformed + scan.malformed


def _superseded(latest: pa.Table, commits: Any) -> Any:
    """Return which records are older than one of the same offset under the other type of key."""
    # Without its first two bytes a key says the same in both types.
    keys = column(latest["key"])
    rest = keys.parts(keys.starts + 2, keys.ends, commits)
    codes = rest.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    offsets = latest["record_offset"].to_numpy()
    newest = np.full(codes.max() + 1, -1)
    np.maximum.at(newest, codes[commits], offsets[commits])
    return commits & (offsets < newest[codes])
