"""Which leader epoch goes with a committed offset (KIP-320)."""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter

from toolkit.model import LogOffsets

FIRST_EPOCH = 0


def leader_epoch_at(log: LogOffsets, offset: int) -> int | None:
    """
    Return the leader epoch to commit with an offset; None where it is not known for certain.

    That is the epoch of the record before it, the last one that the group has consumed, or at the
    log start the epoch of the record there. With None a client just reads on; with a wrong epoch
    it would believe that the log was cut off below its position.
    """
    if log.log_start is None or log.log_end is None:
        return None
    record = max(offset - 1, log.log_start)
    if not log.log_start <= offset <= log.log_end or record >= log.log_end:
        return None
    index = bisect_right(log.epochs, record, key=attrgetter("end_offset"))
    if index == len(log.epochs):
        return None
    epoch = log.epochs[index].leader_epoch
    # Where the oldest epoch that is known begins is not known, unless none can be older.
    return epoch if index > 0 or epoch == FIRST_EPOCH else None
