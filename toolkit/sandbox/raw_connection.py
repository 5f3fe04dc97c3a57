"""Plain connections to the brokers of a sandbox cluster, for protocol messages of kafka-python."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any, Self

from kafka.protocol.consumer.offsets import ListOffsetsRequest, ListOffsetsResponse

from toolkit.model import TopicPartition
from toolkit.sandbox.seed import SeededTopic

LATEST, EARLIEST = -1, -2
NOT_LEADER, NOT_COORDINATOR = 6, 16


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
        return self

    def __exit__(self, *_: object) -> None:
        self._incoming.close()
        self._socket.close()

    def ask(self, request: Any, answer: Any, *, version: int) -> Any:
        """Send `request` and return what came back, decoded as `answer`."""
        request.API_VERSION = version
        request.with_header(client_id=self._client_id)
        self._socket.sendall(request.encode(version=version, header=True, framed=True))
        (size,) = struct.unpack(">i", self._read(4))
        return answer.decode(self._read(size), version=version, header=True)

    def ask_all(self, request: Any, answer: Any, *, version: int) -> list[Any]:
        """Return the answer of the one broker."""
        return [self.ask(request, answer, version=version)]

    def _read(self, size: int) -> bytes:
        data = self._incoming.read(size)
        if len(data) < size:
            raise ConnectionResetError("the broker closed the connection")
        return data


class RawCluster:
    """A connection to each broker that runs; what only one of them may answer finds that one."""

    def __init__(self, addresses: str, *, client_id: str) -> None:
        """Connect to `addresses`, hosts and ports with commas between them."""
        self._open = ExitStack()
        self._brokers: list[RawConnection] = []
        refused: list[OSError] = []
        for address in addresses.split(","):
            try:
                one = RawConnection(address, client_id=client_id)
            except OSError as exc:
                refused.append(exc)
            else:
                self._brokers.append(self._open.enter_context(one))
        if not self._brokers:
            raise refused[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def ask(self, request: Any, answer: Any, *, version: int) -> Any:
        """Return the response of the group's coordinator, which is tried first the next time."""
        for number, broker in enumerate(self._brokers):
            got = broker.ask(request, answer, version=version)
            # An answer without a code of its own is one to a member, whose heartbeat came before.
            if getattr(got, "error_code", 0) != NOT_COORDINATOR:
                self._brokers.insert(0, self._brokers.pop(number))
                break
        return got

    def ask_all(self, request: Any, answer: Any, *, version: int) -> list[Any]:
        """Return the answers of all brokers."""
        return [broker.ask(request, answer, version=version) for broker in self._brokers]


Brokers = RawConnection | RawCluster


def checked(answer: Any) -> Any:
    """Return `answer`, or raise `RawRequestRefused` when it carries an error code."""
    if answer.error_code:
        raise RawRequestRefused(f"{type(answer).__name__}: error {answer.error_code}")
    return answer


def log_offsets(
    brokers: Brokers,
    topics: Iterable[SeededTopic],
    *,
    timestamp: int = LATEST,
    stable: bool = False,
) -> dict[TopicPartition, int]:
    """Return the first or last offset of every partition; `stable` stops at open transactions."""
    Topic = ListOffsetsRequest.ListOffsetsTopic  # noqa: N806  # it is a class
    requested = [
        Topic(
            name=topic.name,
            partitions=[
                Topic.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
                for partition in range(topic.partitions)
            ],
        )
        for topic in topics
    ]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=int(stable), topics=requested)
    offsets = {
        TopicPartition(topic.name, partition.partition_index): checked(partition).offset
        for answer in brokers.ask_all(request, ListOffsetsResponse, version=3)
        for topic in answer.topics
        for partition in topic.partitions
        if partition.error_code != NOT_LEADER
    }
    if len(offsets) < sum(len(topic.partitions) for topic in requested):
        raise RawRequestRefused("partitions without a leader")
    return offsets
