"""Where partitions' logs stood at an instant: ListOffsets with a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from kafka.protocol.consumer import ListOffsetsRequest

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.leaders import ask_leaders, find_leaders
from toolkit.kafka_io.client.timestamps import from_ms, to_ms
from toolkit.kafka_io.logs.log_offsets import list_offsets_request
from toolkit.model import Problem, TimedOffset, TopicPartition

NO_OFFSET = -1


def read_offsets_at(
    connection: Connection, at: Mapping[TopicPartition, datetime]
) -> tuple[dict[TopicPartition, TimedOffset | None], list[Problem]]:
    """
    Return for each partition its first record at or after its instant, None where there is none.

    The record has the lowest offset of those, which need not be the oldest of them: producers
    choose timestamps. Records of open and aborted transactions count. One request a leader and
    1,000 partitions; what could not be asked for is a problem, without a key in the answer.
    """

    def requests(chunk: Sequence[TopicPartition]) -> Iterator[tuple[None, ListOffsetsRequest]]:
        yield None, list_offsets_request({partition: to_ms(at[partition]) for partition in chunk})

    leaders, failed = find_leaders(connection, at.keys())
    found: dict[TopicPartition, TimedOffset | None] = {}
    for _, partition, entry in ask_leaders(connection, leaders, requests):
        if isinstance(entry, str):
            failed[partition] = entry
        elif entry.offset == NO_OFFSET:
            found[partition] = None
        elif (timestamp := from_ms(entry.timestamp)) is None:
            failed[partition] = f"record {entry.offset} has a timestamp that is out of range"
        else:
            found[partition] = TimedOffset(entry.offset, timestamp)
    problems = [Problem("offsets by time", why, None, *key) for key, why in failed.items()]
    return found, problems
