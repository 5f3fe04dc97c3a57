"""One plain connection to a sandbox broker, for protocol messages of kafka-python."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from kafka.protocol.consumer.offsets import ListOffsetsRequest, ListOffsetsResponse

from toolkit.model import TopicPartition
from toolkit.sandbox.seed import SeededTopic

LATEST, EARLIEST = -1, -2


class RawRequestRefused(Exception):  # reads as a sentence: the broker refused
    """The broker answered with an error code."""


class RawConnection:
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
    """Return `answer`, or raise `RawRequestRefused` when it carries an error code."""
    if answer.error_code:
        raise RawRequestRefused(f"{type(answer).__name__}: error {answer.error_code}")
    return answer


def log_offsets(
    broker: RawConnection,
    topics: Iterable[SeededTopic],
    *,
    timestamp: int = LATEST,
    stable: bool = False,
) -> dict[TopicPartition, int]:
    """Return the first or last offset of every partition; `stable` stops at open transactions."""
    Topic = ListOffsetsRequest.ListOffsetsTopic  # noqa: N806  # it is a class
    asked = [
        Topic(
            name=topic.name,
            partitions=[
                Topic.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
                for partition in range(topic.partitions)
            ],
        )
        for topic in topics
    ]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=int(stable), topics=asked)
    answer = broker.ask(request, ListOffsetsResponse, version=3)
    return {
        TopicPartition(topic.name, partition.partition_index): checked(partition).offset
        for topic in answer.topics
        for partition in topic.partitions
    }
