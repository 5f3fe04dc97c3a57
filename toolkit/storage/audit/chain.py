"""
The hash chain of the audit log, in which each line contains the hash of the one before it.

A line is sealed and opened as the very bytes that are in the file, so that there is no second way
to write the same line. `verify` finds where the chain is broken.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from toolkit.errors import StateFileError
from toolkit.storage.formats.file_lock import undisturbed
from toolkit.storage.formats.json_codec import RAW_DECODE

LOG, HEAD, LOCK = "audit.jsonl", "audit.head", "audit.lock"
OF_MONTH = "audit-{}.jsonl"  # the log of an earlier month, such as 2026-10

SEAL = b',"hash":"'
STEPS = b',"steps":['
END_BYTES = len(SEAL) + 2 * hashlib.sha256().digest_size + len(b'"}')


class ChainPosition(NamedTuple):
    """A place in the chain: the number of a line and its hash."""

    seq: int
    hash: str


START = ChainPosition(0, "0" * 64)


@dataclass(frozen=True, slots=True)
class SealedLine:
    """A line with a valid hash; its steps, which may be many, are not decoded yet."""

    link: ChainPosition
    prev: str
    content: dict[str, object]  # `steps` is empty
    steps: bytes  # JSON, without the brackets

    def follows(self, link: ChainPosition) -> bool:
        """Return whether it is the next line after a place in the chain."""
        return (self.link.seq, self.prev) == (link.seq + 1, link.hash)


@dataclass(frozen=True, slots=True)
class LogHead:
    """End of the log after the last append; `size` of the file in bytes."""

    link: ChainPosition
    size: int

    @property
    def text(self) -> str:
        """The content of `audit.head`."""
        fields = {"seq": self.link.seq, "hash": self.link.hash, "size": self.size}
        return json.dumps(fields) + "\n"


class LineSeal:
    """Seals the line after a place in the chain, while it is written in parts."""

    def __init__(self, after: ChainPosition) -> None:
        self._after, self._digest = after, hashlib.sha256()

    @property
    def link(self) -> ChainPosition:
        """The place of the line, once all of it was yielded."""
        return ChainPosition(self._after.seq + 1, self._digest.hexdigest())

    def line(self, parts: Iterable[str]) -> Iterator[bytes]:
        """Yield the bytes of a line, without its end; `parts` are JSON, the last of them is "}"."""
        for part in parts:
            data = part.encode()
            self._digest.update(data)
            if part != "}":
                yield data
        yield SEAL + self._digest.hexdigest().encode() + b'"}'


def open_line(line: bytes) -> SealedLine | None:
    """Return the content of a line, or None if it is incomplete or changed."""
    end = line.rfind(SEAL)
    digest = hashlib.sha256(memoryview(line)[: max(end, 0)])
    digest.update(b"}")
    sealed = digest.hexdigest()
    if end < 0 or line[end + len(SEAL) :].removesuffix(b"\n") != sealed.encode() + b'"}':
        return None
    # Quotes inside of texts are escaped, so the first is the field, and what follows the last is
    # no step.
    start, stop = line.find(STEPS, 0, end), line.rfind(b"]", 0, end)
    first = start + len(STEPS) if start >= 0 else end
    steps = line[first:stop] if start >= 0 else b""
    rest = line[:first] + line[max(stop, first) : end] + b"}"
    try:
        text = rest.decode()
        content, stop = RAW_DECODE(text)
        position = ChainPosition(int(content["seq"]), sealed)
        return SealedLine(position, content["prev"], content, steps) if stop == len(text) else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def earlier_files(state: Path) -> list[Path]:
    """Return the files of earlier months, oldest first: the log is what they and `LOG` hold."""
    return sorted(state.glob(OF_MONTH.format("[0-9][0-9][0-9][0-9]-[0-9][0-9]")))


def read_head(state: Path) -> LogHead | None:
    """Return the end of the log from `audit.head`; None if missing or invalid."""
    try:
        text = (state / HEAD).read_bytes().decode()  # as text, \r would pass for \n
        fields = json.loads(text)
        head = LogHead(ChainPosition(int(fields["seq"]), str(fields["hash"])), int(fields["size"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return head if head.text == text else None


class TornLine(str):
    """A flaw that is only a line that a killed writer left: no entry was lost."""

    __slots__ = ()


def verify(state: Path) -> list[str]:
    """
    Return the flaws of the log, one sentence each; empty if it is intact. A `TornLine` is harmless.

    Detects lines that were changed, removed (also at the end), reordered or duplicated. A line that
    a killed writer left is incomplete: no entry is lost. Raises StateFileError if the log cannot be
    read.
    """
    try:
        with undisturbed(state / LOCK):
            walk = _Walk()
            flaws = list(_along(walk, state))
            return flaws + list(_at_the_end(walk, state, sound=not flaws))
    except OSError as exc:
        raise StateFileError(f"audit log {state / LOG}: {exc.strerror or exc}") from exc


@dataclass(slots=True)
class _Walk:
    """How far the chain was followed."""

    last: ChainPosition = START
    prev: str = ""  # the hash of the line before the last
    size: int = 0  # where the last line ends
    doubtful: list[str] = field(default_factory=list)  # lines since then that do not hold

    def torn(self) -> Iterator[str]:
        """Report that the doubtful lines are no entries: the chain continues around them."""
        for line in self.doubtful:
            yield TornLine(f"{line} is incomplete: its writer was killed; no entry is lost")
        self.doubtful.clear()

    def lost(self, until: int, where: str) -> Iterator[str]:
        """Say that the doubtful lines were entries, and which others are missing."""
        missing = until - self.last.seq - len(self.doubtful)
        for line in self.doubtful:
            yield f"{line} was changed"
        self.doubtful.clear()
        if missing > 0 and until == self.last.seq + 1:
            yield f"entry {until} is missing {where}"
        elif missing > 0:
            yield f"{missing} of the entries {self.last.seq + 1} to {until} are missing {where}"

    def step(self, line: SealedLine, name: str) -> Iterator[str]:
        """Continue with a valid line, and report what is wrong with its place."""
        if line.follows(self.last):
            yield from self.torn()
        elif line.link.seq <= self.last.seq:
            yield f"{name}: entry {line.link.seq} is duplicated or out of order"
            return
        elif line.link.seq == self.last.seq + 1:
            yield f"{name}: hash does not match the previous line; one of the two was replaced"
        yield from self.lost(line.link.seq - 1, f"before {name}")
        self.last, self.prev = line.link, line.prev


def _along(walk: _Walk, state: Path) -> Iterator[str]:
    size = 0
    for path in (*earlier_files(state), state / LOG):
        if not path.exists():
            return
        of = "" if path.name == LOG else f"{path.name}, "
        with path.open("rb") as log:
            for number, raw in enumerate(log, 1):
                size += len(raw)
                line, name = open_line(raw), f"{of}line {number}"
                if line is None:
                    walk.doubtful.append(name)
                    continue
                yield from walk.step(line, name)
                if walk.last == line.link:
                    walk.size = size


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
