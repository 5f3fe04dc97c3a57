"""
Generate sandbox traffic: produce records, delete records, leave a transaction open.

Shares the declared exception of `applications`.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its stubs name only the first
    AdminClient,
    NewTopic,
    OffsetSpec,
)

from toolkit.sandbox.seed import (
    BACKLOG,
    CUT_AT,
    HISTORY_HOURS,
    OPEN_TRANSACTION,
    POISON,
    POISON_OFFSET,
    TOPICS,
)

T = TypeVar("T")

_PATIENCE_S = 20
_WEEK_MS = 7 * 24 * 3600 * 1000
_NOT_A_RECORD = b"\x00\xff\xfeorder?"  # what a broken producer would write: neither UTF-8 nor JSON


def create_topics(address: str) -> None:
    """Create the seeded topics that are not there; old records must not expire from them."""
    topics = [  # on as many brokers as the cluster has by default
        NewTopic(topic.name, topic.partitions, config={"retention.ms": "-1"}) for topic in TOPICS
    ]
    admin = _admin(address)  # its answers end with it
    for created in admin.create_topics(topics).values():
        try:
            created.result()
        except KafkaException as exc:
            if exc.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def write_backlog(address: str) -> None:
    """Fill every empty partition with records of the last days, one of them poison."""
    producer = _producer(address)
    oldest = datetime.now(UTC) - timedelta(hours=HISTORY_HOURS)
    apart = timedelta(hours=HISTORY_HOURS) / BACKLOG
    for topic, partition in retry_while_starting(partial(_empty_partitions, address)):
        for number in range(BACKLOG):
            at = oldest + apart * number
            poison = (topic, partition) == POISON and number == POISON_OFFSET
            producer.produce(
                topic,
                key=f"{topic}-{number % 20}",
                value=_NOT_A_RECORD if poison else _record(number, at),
                partition=partition,
                timestamp=int(at.timestamp() * 1000),
            )
    producer.flush()


def keep_producing(address: str, stopped: threading.Event) -> None:
    """Add records to every topic at its rate until `stopped`."""
    producer = _producer(address)
    second = 0
    while not stopped.wait(1):
        for topic in TOPICS:
            for number in range(second * topic.per_second, (second + 1) * topic.per_second):
                producer.produce(
                    topic.name,
                    key=f"{topic.name}-{number % 20}",
                    value=_record(number, datetime.now(UTC)),
                    partition=number % topic.partitions,
                )
        producer.poll(0)
        second += 1
    producer.flush(5)


def commit_a_transaction(address: str) -> Producer:
    """Write one whole transaction, and return its producer."""
    producer = _producer(
        address,
        **{"transactional.id": "settlement-feed", "transaction.timeout.ms": _WEEK_MS},
    )
    producer.init_transactions()
    _begin_transaction(producer)
    producer.commit_transaction()
    return producer


def open_transaction(producer: Producer, stopped: threading.Event) -> None:
    _begin_transaction(producer)
    stopped.wait()


def _begin_transaction(producer: Producer) -> None:
    producer.begin_transaction()
    for number in range(10):
        producer.produce(
            OPEN_TRANSACTION.topic,
            value=_record(number, datetime.now(UTC)),
            partition=OPEN_TRANSACTION.partition,
        )
    producer.flush()


def delete_oldest_records(address: str, topics: tuple[str, ...]) -> None:
    """Delete the oldest records of `topics`, as a too short retention would."""
    partitions = [
        TopicPartition(topic.name, partition, CUT_AT)
        for topic in TOPICS
        if topic.name in topics
        for partition in range(topic.partitions)
    ]
    admin = _admin(address)
    retry_while_starting(
        lambda: [cut.result() for cut in admin.delete_records(partitions).values()]
    )


def retry_while_starting(attempt: Callable[[], T]) -> T:
    """Repeat what a broker refuses that has only just started, or has not heard of a new topic."""
    give_up = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return attempt()
        except KafkaException:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.1)


def _empty_partitions(address: str) -> list[tuple[str, int]]:
    latest = {
        TopicPartition(topic.name, partition): OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the stubs skip it
        for topic in TOPICS
        for partition in range(topic.partitions)
    }
    admin = _admin(address)
    return [
        (partition.topic, partition.partition)
        for partition, end in admin.list_offsets(latest).items()
        if end.result().offset == 0
    ]


def _record(number: int, at: datetime) -> bytes:
    record = {"id": number, "amount": round(number * 7.3 % 500, 2), "at": at.isoformat()}
    return json.dumps(record).encode()


def _admin(address: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": address})


def _producer(address: str, **settings: object) -> Producer:
    return Producer({"bootstrap.servers": address, "linger.ms": 50, **settings})
