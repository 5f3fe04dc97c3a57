"""Rows brought together by key: the newest, the greatest and the least of each, without a loop."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from toolkit.kafka_io.byte_columns import Numbers

ONE_PASS = 1 << 16


class Runs(NamedTuple):
    """
    Rows in the order of their keys, rows of one key in the order of their record offsets.

    `order` holds row numbers, `starts` and `ends` where the run of each key lies in it, and `key`
    the number of the run for each place in it.
    """

    order: Numbers
    starts: Numbers
    ends: Numbers
    key: Numbers

    @property
    def newest(self) -> Numbers:
        """The row number of the newest row of each key."""
        return self.order[self.ends - 1]

    def greatest(self, in_order: Numbers) -> Numbers:
        """Return the greatest number of each run, of numbers that are in the order of the runs."""
        return np.maximum.reduceat(in_order, self.starts) if len(self.starts) else in_order

    def least(self, in_order: Numbers) -> Numbers:
        """Return the least number of each run."""
        return np.minimum.reduceat(in_order, self.starts) if len(self.starts) else in_order


def runs_of(codes: Any, record_offsets: Numbers) -> Runs:
    """Bring rows together by `codes`, small numbers that stand for keys."""
    order = stable_order(codes)
    sorted_codes, offsets = codes[order], record_offsets[order]
    new = sorted_codes[1:] != sorted_codes[:-1]
    if np.any(~new & (offsets[1:] < offsets[:-1])):
        order = np.lexsort((record_offsets, codes))
    starts = np.flatnonzero(np.concatenate([[len(codes) > 0], new]))
    ends = np.append(starts[1:], len(codes)) if len(codes) else starts
    return Runs(order, starts, ends, np.repeat(np.arange(len(starts)), ends - starts))


def stable_order(codes: Any) -> Numbers:
    """Return the rows in the order of small numbers; those with the same stay as they are."""
    # Numbers of 16 bits are sorted by counting, which two passes do for 32.
    order = np.argsort((codes % ONE_PASS).astype(np.uint16), kind="stable")
    high = codes // ONE_PASS
    if len(high) and high.max() > 0:
        order = order[np.argsort(high[order].astype(np.uint16), kind="stable")]
    return order
