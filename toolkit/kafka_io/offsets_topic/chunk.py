"""
A batch of `__consumer_offsets` records, with what was decoded from their keys and values.

Most keys come again and again, so types and groups are read once from each distinct key.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from toolkit.kafka_io.logs.byte_columns import Numbers, column, texts
from toolkit.kafka_io.logs.record_batches import Records
from toolkit.kafka_io.offsets_topic.decode_commits import CommitScan, scan_commit_values
from toolkit.kafka_io.offsets_topic.partitions import (
    KNOWN_TYPES,
    LEGACY_COMMIT,
    OFFSET_COMMIT_TYPES,
)

NO_GROUP, NO_TYPE = -1, -1


class Chunk(NamedTuple):
    """Records, and what their keys and values say."""

    records: Records
    valued: Any  # of each record; False: a tombstone
    codes: Any  # of each record, the number of its key among the distinct ones
    key_kinds: Numbers  # of each key, its record type; NO_TYPE: none that is known
    key_groups: Numbers  # of each key, which of `names` it is; NO_GROUP: none that can be read
    names: Any  # Arrow strings, each group once
    is_commit: Any  # of each record, whether its key is that of a commit
    commits: CommitScan
    unknown: Counter[int]  # records of types that are not known

    def is_of(self, *kinds: int) -> Any:
        """Return which records are of some types."""
        return np.isin(self.key_kinds, kinds)[self.codes]

    def names_of(self, rows: Numbers) -> list[str | None]:
        """Return the group of some records."""
        groups = self.key_groups[self.codes[rows]]
        return self.names.take(pa.array(groups, mask=groups == NO_GROUP)).to_pylist()  # type: ignore[no-any-return] # Arrow is untyped


def chunk_of(records: Records) -> Chunk:
    """Look into the keys and values of some records."""
    encoded = records.keys.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    keys = column(encoded.dictionary)
    counts = np.bincount(codes, minlength=len(keys.starts))
    kinds = keys.int_at(keys.starts, 2)
    whole = keys.lengths >= 2
    known = whole & np.isin(kinds, [*KNOWN_TYPES])
    ends = keys.starts + 4 + keys.int_at(keys.starts + 2, 2)
    fits = known & (ends >= keys.starts + 4) & (ends <= keys.ends)
    names, valid = texts(keys.parts(keys.starts + 4, ends, fits))
    fits &= valid
    grouped = names.dictionary_encode()
    groups = grouped.indices.to_numpy(zero_copy_only=False)
    unknown = {int(kind): int(counts[kinds == kind].sum()) for kind in {*kinds[whole & ~known]}}
    kinds = np.where(known, kinds, NO_TYPE)
    is_commit = np.isin(kinds, [*OFFSET_COMMIT_TYPES])[codes]
    is_legacy = (kinds == LEGACY_COMMIT)[codes]
    commits = scan_commit_values(records.values, is_commit, is_legacy)
    return Chunk(
        records,
        records.values.is_valid().to_numpy(zero_copy_only=False),
        codes,
        kinds,
        np.where(fits, groups, NO_GROUP),
        grouped.dictionary,
        is_commit,
        commits,
        Counter(unknown),
    )
