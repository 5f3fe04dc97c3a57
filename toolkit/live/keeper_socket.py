"""
Control socket of a keeper: one JSON line per request and response, accessible to its user only.

    {"do": "status"}
    {"do": "add", "partitions": [["orders", 1]]}      hold these too
    {"do": "release", "partitions": [["orders", 1]]}  let these go; without a list, all of them

The answer has `ok`, and `words` where something went wrong.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from toolkit.errors import HoldLost, PrerequisiteMissing

LONGEST_FOLDER = 107 - len("/offsetbook-12345678/keeper")  # the name of a socket has 107 bytes
LONGEST_LINE = 10_000_000
PATIENCE_S = 5.0  # for whoever connects and says nothing
ANSWER_WITHIN_S = 120.0  # a capture may take 30 s, and another one may be going on

KeeperRequest = Mapping[str, Any]
KeeperReply = dict[str, Any]


def _short_folder() -> str:
    """Return the folder for temporary files; not one that makes a socket's name too long."""
    folder = tempfile.gettempdir()
    return folder if len(os.fsencode(folder)) <= LONGEST_FOLDER else "/tmp"  # noqa: S108 - mkdtemp makes a private folder in it


class KeeperSocket:
    """A keeper's end: a socket in a folder of its own, gone when the keeper ends."""

    def __init__(self) -> None:
        """Listen; raises PrerequisiteMissing where no socket can be made."""
        try:
            self._folder = Path(tempfile.mkdtemp(prefix="offsetbook-", dir=_short_folder()))
            self.path = self._folder / "keeper"
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(str(self.path))
            self._listener.listen()
        except OSError as exc:
            raise PrerequisiteMissing(f"cannot create the keeper's socket: {exc}") from exc

    def __enter__(self) -> Self:
        """Return the control itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop listening."""
        self._listener.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def fileno(self) -> int:
        """Return what `select` waits for."""
        return self._listener.fileno()

    def serve(self, answer: Callable[[KeeperRequest], KeeperReply]) -> None:
        """Hear one request and answer it; whoever breaks off or talks nonsense is let go."""
        connection, _ = self._listener.accept()
        with connection, suppress(OSError):
            connection.settimeout(PATIENCE_S)
            with connection.makefile("rb") as incoming:
                line = incoming.readline(LONGEST_LINE)
            try:
                request = json.loads(line)
                heard = answer(request) if isinstance(request, dict) else _refusal("not an object")
            except ValueError as exc:
                heard = _refusal(f"invalid request: {exc}")
            connection.sendall(json.dumps(heard).encode() + b"\n")


def ask_keeper(
    path: str, request: KeeperRequest, *, within_s: float = ANSWER_WITHIN_S
) -> KeeperReply:
    """Ask the keeper that listens at a path; raises HoldLost where it does not answer."""
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


def _refusal(words: str) -> KeeperReply:
    return {"ok": False, "words": words}
