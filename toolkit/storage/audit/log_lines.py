"""
The lines of the audit log by their places in the file: a line of a large plan has 100 MB.

Only the beginning of a line is read to know of which run it is.
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
        """Return all of the line."""
        return _read(self.log, self.start, self.stop)

    @property
    def head(self) -> RunHead | None:
        """What the line begins with; None where it is torn. Whether it holds is not checked."""
        # A killed writer has left only a part: nothing is recorded by it.
        if not WHOLE.fullmatch(_read(self.log, max(self.start, self.stop - END_BYTES), self.stop)):
            return None
        size = LIKELY_HEAD
        while True:
            start = _read(self.log, self.start, min(self.start + size, self.stop))
            # Quotes inside of texts are escaped, so this is the field and nothing else.
            if (end := start.find(STEPS)) >= 0:
                return read_head_of(start[:end])
            if self.start + size >= self.stop:
                return None
            size *= 8


@contextmanager
def log_lines(state: Path) -> Iterator[Iterator[LinePlace]]:
    """
    Open the log and yield its lines in their order; none where there is no log.

    Their places can be read until the block ends. Raises StateFileError where that fails.
    """
    path = state / LOG
    try:
        log = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        yield iter(())
        return
    except OSError as exc:
        raise _unreadable(path, exc) from exc
    try:
        yield _places(log)
    except OSError as exc:
        raise _unreadable(path, exc) from exc
    finally:
        os.close(log)


def _places(log: int) -> Iterator[LinePlace]:
    start = at = 0
    while chunk := os.pread(log, SCANNED_AT_ONCE, at):
        end = chunk.find(b"\n")
        while end >= 0:
            yield LinePlace(log, start, at + end)
            start = at + end + 1
            end = chunk.find(b"\n", end + 1)
        at += len(chunk)
    if at > start:
        yield LinePlace(log, start, at)


def _read(log: int, start: int, stop: int) -> bytes:
    parts = []
    while start < stop and (part := os.pread(log, stop - start, start)):
        parts.append(part)
        start += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _unreadable(path: Path, exc: OSError) -> StateFileError:
    return StateFileError(f"audit log {path} cannot be read: {exc.strerror or exc}")
