"""
Clamp an offset to a log, and adjust its leader epoch and metadata.

Metadata is kept if an offset moves, except that of Kafka Streams, which contains the stream time of
the old position: with an older offset it would make the application drop records as late.
"""

from __future__ import annotations

from base64 import b64decode

from toolkit.model import LogOffsets
from toolkit.plan import Position

FIRST_EPOCH = 0
STREAM_TIME_CLEARED = "Kafka Streams commit metadata (stream time) cleared"


def land(wanted: Position, log: LogOffsets) -> tuple[Position, str]:
    """
    Return the position in a log that is nearest to a saved one, and why it moved.

    A leader epoch newer than the log's, because the topic was re-created, is replaced. The start
    and end of the log must be known.
    """
    start, end = log.log_start or 0, log.log_end or 0
    offset = min(max(wanted.offset, start), end)
    if offset == wanted.offset:
        if _can_have(wanted.leader_epoch, log):
            return wanted, ""
        why = f"the log has no leader epoch {wanted.leader_epoch}: the topic was re-created"
        return wanted._replace(leader_epoch=leader_epoch_at(log, offset)), why
    where = (
        (f"the log start offset {start}") if wanted.offset < start else f"the log end offset {end}"
    )
    side = "before" if wanted.offset < start else "past"
    why = f"clamped to {where}: {wanted.offset} is {side} it"
    if is_stream_time(wanted.metadata):
        return Position(offset, leader_epoch_at(log, offset)), f"{why}; {STREAM_TIME_CLEARED}"
    return Position(offset, leader_epoch_at(log, offset), wanted.metadata), why


def is_stream_time(metadata: str) -> bool:
    """
    Return whether commit metadata was written by Kafka Streams, under either group protocol.

    It is Base64 of a version (1 or 2), the stream time in 8 bytes and, from 2 on, more
    (Kafka's `TopicPartitionMetadata`).
    """
    try:
        raw = b64decode(metadata, validate=True)
    except ValueError:
        return False
    return len(raw) >= 9 and raw[0] in {1, 2}


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
