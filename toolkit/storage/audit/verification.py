"""Verify the integrity of the audit log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from toolkit.errors import StateFileError
from toolkit.storage.audit.chain import (
    HEAD,
    LOCK,
    LOG,
    START,
    ChainPosition,
    LogHead,
    SealedLine,
    open_line,
    read_head,
)
from toolkit.storage.formats.file_lock import undisturbed

TORN = " is incomplete: its writer was killed; no entry is lost"


def is_harmless(flaw: str) -> bool:
    """Whether a flaw is only a line that a killed writer left, and no entry was lost."""
    return flaw.endswith(TORN)


def verify(state: Path) -> list[str]:
    """
    Return the flaws of the log, one sentence each; empty if it is intact.

    Detects lines that were changed, removed (also at the end), reordered or duplicated. A line that
    a killed writer left is incomplete: no entry is lost. Raises StateFileError if the log cannot be
    read.
    """
    try:
        with undisturbed(state / LOCK):
            walk = _Walk()
            flaws = list(_along(walk, state / LOG))
            return flaws + list(_at_the_end(walk, state, sound=not flaws))
    except OSError as exc:
        raise StateFileError(f"audit log {state / LOG}: {exc.strerror or exc}") from exc


@dataclass(slots=True)
class _Walk:
    """How far the chain was followed."""

    last: ChainPosition = START
    prev: str = ""  # the hash of the line before the last
    size: int = 0  # where the last line ends
    doubtful: list[int] = field(default_factory=list)  # lines since then that do not hold

    def torn(self) -> Iterator[str]:
        """Say that the doubtful lines are no entries: the chain goes on around them."""
        for number in self.doubtful:
            yield f"line {number}{TORN}"
        self.doubtful.clear()

    def lost(self, until: int, where: str) -> Iterator[str]:
        """Say that the doubtful lines were entries, and which others are missing."""
        missing = until - self.last.seq - len(self.doubtful)
        for number in self.doubtful:
            yield f"line {number} was changed"
        self.doubtful.clear()
        if missing > 0:
            yield f"{missing} of the entries {self.last.seq + 1} to {until} are missing {where}"

    def step(self, line: SealedLine, number: int) -> Iterator[str]:
        """Go on to a line that holds, and say what is wrong with its place."""
        if line.follows(self.last):
            yield from self.torn()
        elif line.link.seq <= self.last.seq:
            yield f"line {number}: entry {line.link.seq} is duplicated or out of order"
            return
        elif line.link.seq == self.last.seq + 1:
            yield (
                f"line {number}: hash does not match the previous line; one of the two was replaced"
            )
        yield from self.lost(line.link.seq - 1, f"before line {number}")
        self.last, self.prev = line.link, line.prev


def _along(walk: _Walk, path: Path) -> Iterator[str]:
    if not path.exists():
        return
    with path.open("rb") as log:
        for number, raw in enumerate(log, 1):
            line = open_line(raw)
            if line is None:
                walk.doubtful.append(number)
                continue
            yield from walk.step(line, number)
            if walk.last == line.link:
                walk.size = log.tell()


def _at_the_end(walk: _Walk, state: Path, *, sound: bool) -> Iterator[str]:
    head = read_head(state)
    if head and head.link.seq > walk.last.seq:
        yield from walk.lost(head.link.seq, "at the end")
        return
    if head is None and ((state / HEAD).exists() or walk.last.seq > 1):
        yield f"{HEAD} is missing or was changed: lines may be missing at the end"
    # Where lines were lost, the size cannot be what the head says.
    if head and not _leads_to(walk, head, exactly=sound):
        yield f"{HEAD} does not match the last line; one of the two was replaced"
    yield from walk.torn()


def _leads_to(walk: _Walk, head: LogHead, *, exactly: bool) -> bool:
    if head.link == walk.last:
        return head.size == walk.size or not exactly
    # A writer that was killed after its line left a head that is one line behind.
    return head.link == ChainPosition(walk.last.seq - 1, walk.prev)
