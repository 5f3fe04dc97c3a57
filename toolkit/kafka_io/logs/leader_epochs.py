"""Which leader epochs wrote a log, and where their records end: OffsetForLeaderEpoch (KIP-320)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.leaders import LogLeader, ask_leaders, find_leaders
from toolkit.model import EpochEnd, LogOffsets, Problem, TopicPartition

MAX_ROUNDS = 32  # a partition that has had more leaders keeps its older epochs unknown
CONSUMER_REPLICA = -1


def with_epochs(
    connection: Connection, logs: Mapping[TopicPartition, LogOffsets]
) -> tuple[dict[TopicPartition, LogOffsets], list[Problem]]:
    """
    Add to each log its leader epochs, oldest first, and a problem where they could not be read.

    A leader answers with the largest epoch up to the one asked for in which records were written,
    and where they end; so each round asks for the next older one, until the log start is reached.
    Below its oldest epoch a leader says where that one begins, which is kept as an end as well.
    """
    leaders, failed = find_leaders(connection, logs)
    found: dict[TopicPartition, list[EpochEnd]] = defaultdict(list)
    asked = {partition: leader.epoch for partition, leader in leaders.items()}
    for _ in range(MAX_ROUNDS):
        waiting = {partition: leaders[partition] for partition in asked}
        older: dict[TopicPartition, int] = {}
        for partition, answer in _ask(connection, waiting, asked):
            if isinstance(answer, str):
                failed[partition] = answer
                continue
            if answer.leader_epoch < 0 or answer.end_offset < 0:
                continue  # the leader itself does not know
            found[partition].append(answer)
            if answer.leader_epoch > 0 and answer.end_offset > (logs[partition].log_start or 0):
                older[partition] = answer.leader_epoch - 1
        asked = older
        if not asked:
            break
    known = {
        partition: replace(log, epochs=tuple(reversed(found[partition])))
        for partition, log in logs.items()
    }
    return known, [Problem("leader epochs", why, None, *key) for key, why in failed.items()]


def _ask(
    connection: Connection,
    leaders: Mapping[TopicPartition, LogLeader],
    epochs: Mapping[TopicPartition, int],
) -> Iterator[tuple[TopicPartition, EpochEnd | str]]:
    def requests(
        chunk: Sequence[TopicPartition],
    ) -> Iterator[tuple[None, OffsetForLeaderEpochRequest]]:
        yield None, _request({partition: epochs[partition] for partition in chunk})

    for _, partition, entry in ask_leaders(connection, leaders, requests):
        if isinstance(entry, str):
            yield partition, entry
        else:
            yield partition, EpochEnd(entry.leader_epoch, entry.end_offset)


def _request(epochs: Mapping[TopicPartition, int]) -> OffsetForLeaderEpochRequest:
    topic_type = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for (topic, number), epoch in epochs.items():
        by_topic[topic].append(
            topic_type.OffsetForLeaderPartition(partition=number, leader_epoch=epoch)
        )
    return OffsetForLeaderEpochRequest(
        replica_id=CONSUMER_REPLICA,
        topics=[topic_type(topic=name, partitions=rows) for name, rows in by_topic.items()],
    )
