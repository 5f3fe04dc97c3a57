"""One plain connection to a sandbox broker, for protocol messages of kafka-python."""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Any, Self


class Refused(Exception):  # reads as a sentence: the broker refused
    """The broker answered with an error code."""


class Connection:
    """One connection to the broker, one request at a time."""

    def __init__(self, address: str, *, client_id: str) -> None:
        """Connect to `address`, a host and a port."""
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._incoming = self._socket.makefile("rb")
        self._client_id = client_id

    def __enter__(self) -> Self:
        """Return the connection itself."""
        return self

    def __exit__(
        self, _t: type[BaseException] | None, _e: BaseException | None, _b: TracebackType | None
    ) -> None:
        """Close the connection."""
        self._incoming.close()
        self._socket.close()

    def ask(self, request: Any, answer: Any, *, version: int) -> Any:
        """Send `request` and return what came back, decoded as `answer`."""
        request.API_VERSION = version
        request.with_header(client_id=self._client_id)
        self._socket.sendall(request.encode(version=version, header=True, framed=True))
        (size,) = struct.unpack(">i", self._read(4))
        return answer.decode(self._read(size), version=version, header=True)

    def _read(self, size: int) -> bytes:
        data = self._incoming.read(size)
        if len(data) < size:
            raise ConnectionResetError("the broker closed the connection")
        return data


def checked(answer: Any) -> Any:
    """Return `answer`, or raise `Refused` when it carries an error code."""
    if answer.error_code:
        raise Refused(f"{type(answer).__name__}: error {answer.error_code}")
    return answer
