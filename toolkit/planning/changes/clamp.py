"""
The leader epoch and the metadata to commit with an offset.

Commit metadata belongs to its offset, and stays only with it. Applications write there which
records after the offset are done, or how far stream time has come: with another offset they would
leave out records that they have not processed.
"""

from __future__ import annotations

from toolkit.model import LogOffsets
from toolkit.plan import Position

FIRST_EPOCH = 0
METADATA_CLEARED = "commit metadata cleared"


def moved_to(offset: int, committed: Position | None, log: LogOffsets) -> tuple[Position, str]:
    """Return the position at another offset than `committed`, and what is cleared."""
    note = METADATA_CLEARED if committed and committed.metadata else ""
    return Position(offset, leader_epoch_at(log, offset)), note


def placed(
    requested: int | Position, committed: Position | None, log: LogOffsets
) -> tuple[Position, str]:
    """
    Return what to commit for an offset or a saved position, and why it differs from that.

    An offset alone keeps the leader epoch and the metadata that are committed at the same offset.
    """
    if isinstance(requested, Position):
        return clamp_to_log(requested, log)
    landed, clamped = clamp_to_log(Position(requested), log)
    if committed and committed.offset == landed.offset:
        after, why = clamp_to_log(committed, log)
    else:
        after, why = moved_to(landed.offset, committed, log)
    return after, "; ".join(filter(None, [clamped, why]))


def clamp_to_log(requested: Position, log: LogOffsets) -> tuple[Position, str]:
    """
    Return the position in a log that is nearest to a saved one, and why it moved.

    A leader epoch newer than the log's, because the topic was re-created, is replaced. The start
    and end of the log must be known.
    """
    start, end = log.log_start or 0, log.log_end or 0
    offset = min(max(requested.offset, start), end)
    if offset == requested.offset:
        if _can_have(requested.leader_epoch, log):
            return requested, ""
        why = f"the log has no leader epoch {requested.leader_epoch}: the topic was re-created"
    elif requested.offset < start:
        why = f"clamped to the log start offset {start}: {requested.offset} is before it"
    else:
        why = f"clamped to the log end offset {end}: {requested.offset} is past it"
    position, cleared = moved_to(offset, requested, log)
    return position, "; ".join(filter(None, [why, cleared]))


def _can_have(leader_epoch: int | None, log: LogOffsets) -> bool:
    newest = log.epochs[-1].leader_epoch if log.epochs else None
    return leader_epoch is None or newest is None or leader_epoch <= newest


def leader_epoch_at(log: LogOffsets, offset: int) -> int | None:
    """
    Return the leader epoch to commit with an offset; None if it is not known for certain.

    That is the epoch of the record before it, the last one that the group has consumed, or at the
    log start the epoch of the record there. With None a client simply continues; with a wrong epoch
    it would conclude that the log was truncated below its position.
    """
    if log.log_start is None or log.log_end is None:
        return None
    record = offset - 1 if offset > log.log_start else log.log_start
    if not log.log_start <= offset <= log.log_end or record >= log.log_end:
        return None
    for epoch, end_offset in log.epochs:
        if record < end_offset:
            # The start of the oldest known epoch is unknown, unless no epoch can be older.
            return epoch if epoch == FIRST_EPOCH or epoch != log.epochs[0].leader_epoch else None
    return None
