"""
The chain that holds the audit log together: each line carries the hash of the one before.

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


class Link(NamedTuple):
    """A place in the chain: the number of a line and its hash."""

    seq: int
    hash: str


START = Link(0, "0" * 64)


@dataclass(frozen=True, slots=True)
class Line:
    """A line that is as it was sealed."""

    link: Link
    prev: str
    content: dict[str, object]

    def follows(self, link: Link) -> bool:
        """Whether it is the line right after a place in the chain."""
        return (self.link.seq, self.prev) == (link.seq + 1, link.hash)


@dataclass(frozen=True, slots=True)
class Head:
    """Where the log ended when it was last added to; `size` of the file in bytes."""

    link: Link
    size: int

    @property
    def text(self) -> str:
        """The content of `audit.head`."""
        fields = {"seq": self.link.seq, "hash": self.link.hash, "size": self.size}
        return json.dumps(fields) + "\n"


def seal(content: dict[str, object], after: Link) -> tuple[bytes, Link]:
    """Return the line, without its end, that holds `content` after a place, and its own place."""
    fields = {"seq": after.seq + 1, **content, "prev": after.hash}
    body = json.dumps(fields, separators=(",", ":")).encode()
    digest = hashlib.sha256(body).hexdigest()
    return body[:-1] + SEAL + digest.encode() + b'"}', Link(after.seq + 1, digest)


def open_line(line: bytes) -> Line | None:
    """Return what a line holds, or None where it is torn or changed."""
    start, _, end = line.rpartition(SEAL)
    body = start + b"}"
    digest = hashlib.sha256(body).hexdigest()
    if end != digest.encode() + b'"}':
        return None
    try:
        content = json.loads(body)
        return Line(Link(int(content["seq"]), digest), content["prev"], content)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def read_head(state: Path) -> Head | None:
    """Return where the log is said to end; None where there is no word, or not a clear one."""
    try:
        text = (state / HEAD).read_bytes().decode()  # as text, \r would pass for \n
        fields = json.loads(text)
        head = Head(Link(int(fields["seq"]), str(fields["hash"])), int(fields["size"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return head if head.text == text else None
