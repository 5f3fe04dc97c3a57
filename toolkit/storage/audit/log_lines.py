"""
Lines of the audit log by their places in the file.

A line of a large plan has 100 MB. So only the beginning of a line is read to know of which run it
is, and a line as a whole only where what it says is needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from toolkit.errors import StateFileError
from toolkit.storage.audit.chain import END_BYTES, LOG, STEPS, WHOLE
from toolkit.storage.audit.lines import RunHead, read_head_of

SCANNED_AT_ONCE = 1 << 20
LIKELY_HEAD = 1 << 13


@dataclass(frozen=True, slots=True)
class LinePlace:
    """One line of an open log, without its end: where it starts and stops."""

    log: int
    start: int
    stop: int

    def read(self) -> bytes:
        return read_bytes(self.log, self.start, self.stop)

    @property
    def head(self) -> RunHead | None:
        """What the line begins with; None where it is torn. Whether it holds is not checked."""
        # A killed writer has left only a part: nothing is recorded by it.
        if not WHOLE.fullmatch(
            read_bytes(self.log, max(self.start, self.stop - END_BYTES), self.stop)
        ):
            return None
        size = LIKELY_HEAD
        while True:
            start = read_bytes(self.log, self.start, min(self.start + size, self.stop))
            # Quotes inside of texts are escaped, so this is the field and nothing else.
            if (end := start.find(STEPS)) >= 0:
                return read_head_of(start[:end])
            if self.start + size >= self.stop:
                return None
            size *= 8


@contextmanager
def opened_log(state: Path) -> Iterator[int | None]:
    """
    Open the log of a state directory; None where there is none.

    Raises StateFileError where it cannot be opened, or read before the block ends.
    """
    path = state / LOG
    try:
        log = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        yield None
        return
    except OSError as exc:
        raise _unreadable(path, exc) from exc
    try:
        yield log
    except OSError as exc:
        raise _unreadable(path, exc) from exc
    finally:
        os.close(log)


def lines_from(log: int, start: int) -> Iterator[LinePlace]:
    """Yield the lines of a log that begin at or after a place where a line begins."""
    at = start
    while chunk := os.pread(log, SCANNED_AT_ONCE, at):
        end = chunk.find(b"\n")
        while end >= 0:
            yield LinePlace(log, start, at + end)
            start = at + end + 1
            end = chunk.find(b"\n", end + 1)
        at += len(chunk)
    if at > start:
        yield LinePlace(log, start, at)


def read_bytes(log: int, start: int, stop: int) -> bytes:
    """Return the bytes of a log between two places, fewer where it ends before."""
    parts = []
    while start < stop and (part := os.pread(log, stop - start, start)):
        parts.append(part)
        start += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _unreadable(path: Path, exc: OSError) -> StateFileError:
    return StateFileError(f"audit log {path} cannot be read: {exc.strerror or exc}")
