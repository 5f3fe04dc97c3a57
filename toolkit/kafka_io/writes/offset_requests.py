"""Parts of what is committed or deleted of one group, and the requests that delete."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kafka.protocol.consumer import OffsetDeleteRequest

from toolkit.model import TopicPartition
from toolkit.plan import Position

# A commit of many offsets becomes one batch of records, which must fit the offsets topic's limit of
# 1 MB by default; a record takes its names, its metadata and about 100 bytes.
BATCH_BYTES = 400_000
RECORD_BYTES = 100


def chunks(
    group_id: str, positions: Mapping[TopicPartition, Position]
) -> Iterator[dict[TopicPartition, Position]]:
    """Yield positions in parts that each fit a batch of the offsets topic."""
    chunk: dict[TopicPartition, Position] = {}
    size = 0
    for partition, position in positions.items():
        names = f"{group_id}{partition.topic}{position.metadata}"
        needed = RECORD_BYTES + len(names.encode("utf-8", "surrogatepass"))
        if chunk and size + needed > BATCH_BYTES:
            yield chunk
            chunk, size = {}, 0
        chunk[partition] = position
        size += needed
    if chunk:
        yield chunk


def delete_request(group_id: str, partitions: Iterable[TopicPartition]) -> OffsetDeleteRequest:
    """Return the request to delete offsets (KIP-496)."""
    topic_type = OffsetDeleteRequest.OffsetDeleteRequestTopic
    topics = [
        topic_type(
            name=topic,
            partitions=[
                topic_type.OffsetDeleteRequestPartition(partition_index=number)
                for number in numbers
            ],
        )
        for topic, numbers in _by_topic(partitions).items()
    ]
    return OffsetDeleteRequest(group_id=group_id, topics=topics)


def partition_codes(answer: Any) -> dict[TopicPartition, int]:
    """Return the error code of each partition in an answer."""
    return {
        TopicPartition(topic.name, found.partition_index): found.error_code
        for topic in answer.topics
        for found in topic.partitions
    }


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, Sequence[int]]:
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, number in partitions:
        by_topic[topic].append(number)
    return dict(by_topic)
