"""Add entries to the audit log."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import chain, repeat
from pathlib import Path

from toolkit.storage.audit.chain import (
    HEAD,
    LOCK,
    LOG,
    OF_MONTH,
    START,
    ChainPosition,
    LineSeal,
    LogHead,
    earlier_files,
    open_line,
    read_head,
)
from toolkit.storage.audit.entry import AuditEntry, Event, entry_parts, lines_from, opened_log
from toolkit.storage.formats.atomic_files import (
    file_name,
    make_folder,
    not_written,
    open_private,
    sync_folder,
    write_whole,
)
from toolkit.storage.formats.file_lock import PATIENCE_S, exclusively

FIRST_MONTH = re.compile(rb'{"seq":\d+,"at":"(\d{4}-\d{2})-')
LIKELY_START = 100  # bytes in which the time of an entry is
WRITTEN_AT_ONCE = 1 << 20  # bytes
SLACK_BYTES = 65_536  # for the broker's reasons, the head and what the file system needs itself


def append(state: Path, entry: AuditEntry) -> None:
    """
    Add an entry to the log, on the disk before this returns.

    It is written step by step, so that a large one is never in memory as a whole. An intent also
    reserves the room that the outcome of its run will need. Raises StateFileError where either
    cannot be had; the log is then unchanged.
    """
    with exclusively(make_folder(state) / LOCK, within_s=PATIENCE_S):
        _end_month(state, entry.at)
        _append(state, entry)


def _append(state: Path, entry: AuditEntry) -> None:
    after = _end(state)
    earlier_bytes = sum(path.stat().st_size for path in earlier_files(state))
    with _opened(state / LOG) as log:
        size = os.fstat(log).st_size
        start = b"" if _is_whole(log, size) else b"\n"
        try:
            if entry.event is not Event.INTENT:
                _reserve_of(state, entry).unlink(missing_ok=True)
            seal = LineSeal(after)
            line = seal.line(entry_parts(entry, after))
            written = _write(log, chain([start], line, [b"\n"]))
            if entry.event is Event.INTENT:
                _set_room_aside(state, entry, written)
            os.fsync(log)
            head = LogHead(seal.link, earlier_bytes + size + written)
            write_whole(state / HEAD, head.text, private=True)
        except Exception as exc:
            with suppress(OSError):
                os.ftruncate(log, size)
            _give_up_room(state, entry)
            if isinstance(exc, OSError):
                raise not_written(state / LOG, exc) from exc
            raise


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    is_new = not path.exists()
    try:
        descriptor = open_private(path, os.O_RDWR | os.O_APPEND)
    except OSError as exc:
        raise not_written(path, exc) from exc
    try:
        if is_new:
            sync_folder(path.parent)
        yield descriptor
    finally:
        os.close(descriptor)


def _end_month(state: Path, now: datetime) -> None:
    """
    Put the file of an earlier month aside, so that an entry of `now` begins a new one.

    A file is of the month of its first entry. It stays where the clock went back meanwhile: the
    names of the files are the order of the log.
    """
    path, aside = state / LOG, earlier_files(state)
    try:
        with path.open("rb") as log:
            found = FIRST_MONTH.match(log.read(LIKELY_START))
            month = found[1].decode() if found else ""
            if not month or month >= f"{now.astimezone(UTC):%Y-%m}":
                return
            target = path.with_name(OF_MONTH.format(month))
            if aside and target <= aside[-1]:
                return
        with _opened(path) as log:
            if not _is_whole(log, os.fstat(log).st_size):
                os.write(log, b"\n")
            os.fsync(log)
        path.rename(target)
        sync_folder(state)
    except FileNotFoundError:
        return
    except OSError as exc:
        raise not_written(path, exc) from exc


def _is_whole(log: int, size: int) -> bool:
    return not size or os.pread(log, 1, size - 1) == b"\n"


def _end(state: Path) -> ChainPosition:
    """
    Return the place after which to append: the last whole line, or its place in the head.

    A killed writer may have left a line that the head does not know. Lines that the head knows and
    the log lacks were removed: appending after the head leaves the gap for `verify` to find.
    """
    head = read_head(state)
    known, link = (head.size, head.link) if head else (0, START)
    with opened_log(state) as log:
        for place in lines_from(log, known) if log else ():
            if line := open_line(place.read()):
                link = max(link, line.link, key=lambda place: place.seq)
    return link


def _set_room_aside(state: Path, entry: AuditEntry, size: int) -> None:
    """Reserve room for the outcome of an intent of this size."""
    reserve = _reserve_of(state, entry)
    make_folder(reserve.parent)
    descriptor = open_private(reserve, os.O_WRONLY)
    try:
        _allocate(descriptor, 2 * size + SLACK_BYTES)
    finally:
        os.close(descriptor)


def _allocate(descriptor: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:  # macOS has none
        _write(descriptor, repeat(bytes(SLACK_BYTES), -(-size // SLACK_BYTES)))


def _give_up_room(state: Path, entry: AuditEntry) -> None:
    if entry.event is Event.INTENT:
        with suppress(OSError):
            _reserve_of(state, entry).unlink()


def _reserve_of(state: Path, entry: AuditEntry) -> Path:
    return state / "audit.reserves" / file_name(entry.run.run_id)


def _write(log: int, parts: Iterable[bytes]) -> int:
    """Add parts to the log, many at a time, and return how many bytes they were."""
    waiting, size = bytearray(), 0
    for part in chain(parts, [None]):
        waiting += part or b""
        if part is None or len(waiting) >= WRITTEN_AT_ONCE:
            size += len(waiting)
            while waiting:
                del waiting[: os.write(log, waiting)]
    return size
