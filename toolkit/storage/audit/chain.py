"""
The hash chain of the audit log: each line contains the hash of the previous one.

A line is sealed and opened as the very bytes that are in the file, so that there is no second way
to write the same line.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

LOG, HEAD, LOCK = "audit.jsonl", "audit.head", "audit.lock"

SEAL = b',"hash":"'
STEPS = b',"steps":['
END_BYTES = len(SEAL) + 2 * hashlib.sha256().digest_size + len(b'"}')
WHOLE = re.compile(rb'%b[0-9a-f]{64}"}' % SEAL)


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
        """Begin a line."""
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
        content = json.loads(rest)
        return SealedLine(
            ChainPosition(int(content["seq"]), sealed), content["prev"], content, steps
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def read_head(state: Path) -> LogHead | None:
    """Return the end of the log from `audit.head`; None if missing or invalid."""
    try:
        text = (state / HEAD).read_bytes().decode()  # as text, \r would pass for \n
        fields = json.loads(text)
        head = LogHead(ChainPosition(int(fields["seq"]), str(fields["hash"])), int(fields["size"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return head if head.text == text else None
