"""
Vectorised per-key reductions: newest row, maximum and minimum.

Keys are given as *codes*: numbers from 0 on, one for each distinct key.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from toolkit.kafka_io.offsets_topic.byte_columns import Numbers

ONE_PASS = 1 << 16


def greatest(codes: Any, values: Numbers, count: int, *, at_least: int) -> Numbers:
    """Return the greatest value of each of `count` keys, and not less than a number."""
    found = np.full(count, at_least)
    np.maximum.at(found, codes, values)
    return found


def least(codes: Any, values: Numbers, count: int, *, at_most: int) -> Numbers:
    """Return the least value of each of `count` keys, and not more than a number."""
    found = np.full(count, at_most)
    np.minimum.at(found, codes, values)
    return found


def newest(codes: Any, offsets: Numbers, count: int) -> Numbers:
    """Return the row of each of `count` keys that has the greatest offset, which is not below 0."""
    rows = np.flatnonzero(offsets == greatest(codes, offsets, count, at_least=-1)[codes])
    found = np.empty(count, np.int64)
    found[codes[rows]] = rows
    return found


def stable_order(codes: Any) -> Numbers:
    """Return the rows in the order of their keys; those of one key stay as they are."""
    # Numbers of 16 bits are sorted by counting, which two passes do for 32.
    order = np.argsort((codes % ONE_PASS).astype(np.uint16), kind="stable")
    if len(codes) and codes.max() >= ONE_PASS:
        high = (codes // ONE_PASS).astype(np.uint16)
        order = order[np.argsort(high[order], kind="stable")]
    return order
