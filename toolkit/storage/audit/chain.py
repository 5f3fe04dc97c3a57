"""
The hash chain of the audit log: each line contains the hash of the previous one.

A line is sealed and opened as the very bytes that are in the file, so that there is no second way
to write the same line.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

LOG, HEAD, LOCK = "audit.jsonl", "audit.head", "audit.lock"

SEAL = b',"hash":"'


class ChainPosition(NamedTuple):
    """A place in the chain: the number of a line and its hash."""

    seq: int
    hash: str


START = ChainPosition(0, "0" * 64)


@dataclass(frozen=True, slots=True)
class SealedLine:
    """A line with a valid hash."""

    link: ChainPosition
    prev: str
    content: dict[str, object]

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


def seal(content: dict[str, object], after: ChainPosition) -> tuple[bytes, ChainPosition]:
    """Return the line, without its end, that holds `content` after a place, and its own place."""
    fields = {"seq": after.seq + 1, **content, "prev": after.hash}
    body = json.dumps(fields, separators=(",", ":")).encode()
    digest = hashlib.sha256(body).hexdigest()
    return body[:-1] + SEAL + digest.encode() + b'"}', ChainPosition(after.seq + 1, digest)


def open_line(line: bytes) -> SealedLine | None:
    """Return the content of a line, or None if it is incomplete or changed."""
    start, _, end = line.rpartition(SEAL)
    body = start + b"}"
    digest = hashlib.sha256(body).hexdigest()
    if end != digest.encode() + b'"}':
        return None
    try:
        content = json.loads(body)
        return SealedLine(ChainPosition(int(content["seq"]), digest), content["prev"], content)
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
