"""
Control socket of a keeper: one JSON line per request and response, accessible to its user only.

    {"do": "status"}
    {"do": "add", "partitions": [["orders", 1]]}      hold these, too
    {"do": "release", "partitions": [["orders", 1]]}  release these; without a list, all

The response has `ok`, and `words` that say what went wrong.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

from toolkit.errors import HoldLost, PrerequisiteMissing
from toolkit.model import TopicPartition
from toolkit.storage.formats.atomic_files import folder_for_sockets

LONGEST_LINE = 1_000_000
LONGEST_S = 1e9  # 32 years
PATIENCE_S = 2.0  # for one request: heartbeats wait meanwhile
ANSWER_WITHIN_S = 120.0  # a capture may take 30 s, and may have to wait for another

TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")  # what Kafka allows

KeeperReply = dict[str, Any]


class KeeperRequest(NamedTuple):
    """A request; `partitions` is None for all, `for_s` is None for no time limit."""

    do: str
    partitions: frozenset[TopicPartition] | None = None
    for_s: float | None = None


def _remove(path: str) -> None:
    """Remove a socket and its folder, unless something else is there."""
    with suppress(OSError):
        if path and Path(path).is_socket():
            Path(path).unlink()
            Path(path).parent.rmdir()


class KeeperSocket:
    """The socket of a keeper, in a folder of its own; removed when the keeper ends."""

    def __init__(self, *, after: str = "") -> None:
        """
        Listen, and remove the socket of a killed keeper, `after` which this one continues.

        Raises PrerequisiteMissing if no socket can be created.
        """
        _remove(after)
        try:
            self._folder = Path(tempfile.mkdtemp(prefix="offsetbook-", dir=folder_for_sockets()))
            self.path = self._folder / "keeper"
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(str(self.path))
            self._listener.listen()
        except OSError as exc:
            raise PrerequisiteMissing(f"cannot create the keeper's socket: {exc}") from exc

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def fileno(self) -> int:
        """Return the descriptor for `select`."""
        return self._listener.fileno()

    def serve(
        self,
        answer: Callable[[KeeperRequest], KeeperReply],
        unheard: Callable[[KeeperRequest], None],
    ) -> None:
        """
        Answer one request; `answer` gets valid requests only.

        `unheard` is called if the client no longer waits for the response.
        """
        with suppress(OSError), self._listener.accept()[0] as connection:
            line = _line(connection)
            request: KeeperRequest | None = None
            try:
                request = _request(line)
            except (ValueError, RecursionError) as exc:
                heard = {"ok": False, "words": f"invalid request: {exc}"}
            else:
                heard = answer(request)
            try:
                connection.settimeout(PATIENCE_S)
                connection.sendall(json.dumps(heard).encode() + b"\n")
            except OSError:
                if request:
                    unheard(request)


def ask_keeper(
    path: str, request: Mapping[str, Any], *, within_s: float = ANSWER_WITHIN_S
) -> KeeperReply:
    """Ask the keeper that listens at a path; raises HoldLost if it does not respond."""
    if not path:
        raise HoldLost("the keeper is still starting", hint="again")
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(within_s)
            connection.connect(path)
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as incoming:
                answer: KeeperReply = json.loads(incoming.readline())
                return answer
    except (OSError, ValueError) as exc:
        raise HoldLost(
            f"the keeper does not respond: {exc}",
            hint="list held partitions with: offsetbook paused-partitions",
        ) from exc


def _line(connection: socket.socket) -> bytes:
    """Return the data up to the end of a line, the time limit or the size limit."""
    line, give_up_at = bytearray(), time.monotonic() + PATIENCE_S
    while not line.endswith(b"\n") and len(line) <= LONGEST_LINE:
        connection.settimeout(max(0.001, give_up_at - time.monotonic()))
        if not (more := connection.recv(65_536)):
            break
        line += more
    return bytes(line)


def _request(line: bytes) -> KeeperRequest:
    """Return the request in a line; raises ValueError or RecursionError for anything else."""
    if len(line) > LONGEST_LINE:
        raise ValueError("too long")
    content = json.loads(line)
    fields = content if isinstance(content, dict) else {}
    do, pairs = fields.get("do", ""), fields.get("partitions")
    if not do or type(do) is not str:
        raise ValueError("it must be an object with 'do'")
    for_s = fields.get("for_s")
    if for_s is not None and (type(for_s) not in {int, float} or not 0 <= for_s <= LONGEST_S):
        raise ValueError("'for_s' must be seconds")
    if pairs is None:
        return KeeperRequest(do, for_s=for_s)
    if not isinstance(pairs, list) or not all(map(_is_partition, pairs)):
        raise ValueError("'partitions' must be a list of [topic, partition]")
    return KeeperRequest(do, frozenset(TopicPartition(*pair) for pair in pairs), for_s)


def _is_partition(pair: object) -> bool:
    if not isinstance(pair, list) or len(pair) != 2:
        return False
    topic, number = pair
    is_topic = isinstance(topic, str) and TOPIC.fullmatch(topic) is not None
    return is_topic and type(number) is int and 0 <= number < 2**31
