"""Records of one partition of `__consumer_offsets` as librdkafka delivers them, in Arrow arrays."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Assignment

from toolkit.errors import BrokerRefused
from toolkit.kafka_io.client.bulk_consumer import bulk_consumer, read_error
from toolkit.kafka_io.offsets_topic.chunk import Records
from toolkit.kafka_io.offsets_topic.partitions import OFFSETS_TOPIC
from toolkit.model import Cluster
from toolkit.model.garbage_collection import no_garbage_collection

RECORDS_PER_CALL = 20_000

# With librdkafka's own defaults for the two queue settings the same read takes eight times as long.
BULK = {
    "isolation.level": "read_committed",
    "group.id": "offsetbook-reader",  # required by the client; nothing joins or commits
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "check.crcs": False,
    "fetch.queue.backoff.ms": 2,
    "queued.min.messages": 200_000,
    "queued.max.messages.kbytes": 65_536,
    "fetch.wait.max.ms": 50,
}


def read_records(cluster: Cluster, number: int, offsets: range) -> Iterator[Records]:
    """
    Yield the records of a partition whose offsets lie in a range, some thousands at a time.

    Raises BrokerRefused where they may not be read, or no longer come.
    """
    if not offsets:
        return
    doing = f"reading {OFFSETS_TOPIC} partition {number} of cluster {cluster.name}"
    try:
        consumer = bulk_consumer(cluster, BULK)
    except KafkaException as exc:
        raise BrokerRefused(f"{doing}: {exc.args[0].str()}") from exc
    try:
        consumer.assign([Assignment(OFFSETS_TOPIC, number, offsets.start)])
        yield from _consume(consumer, number, offsets, doing, cluster.timeout_s)
    except KafkaException as exc:
        raise BrokerRefused(f"{doing}: {exc.args[0].str()}") from exc
    finally:
        consumer.close()


def _consume(
    consumer: Consumer, number: int, offsets: range, doing: str, timeout_s: float
) -> Iterator[Records]:
    position, silent_s = offsets.start, 0.0
    while position < offsets.stop:
        wait_s = 0.1
        with no_garbage_collection():
            # The call waits its whole time when fewer records are left: never ask for more.
            messages = consumer.consume(min(RECORDS_PER_CALL, offsets.stop - position), wait_s)
            silent_s = 0.0 if messages else silent_s + wait_s
            if silent_s > timeout_s:
                raise BrokerRefused(f"{doing}: no data for {timeout_s:g} s at offset {position}")
            keys = pa.array(list(map(Message.key, messages)), pa.binary())
            if keys.null_count:
                # What has no key is no record: the end of the log as it is now, or an error.
                messages, position = _messages_up_to_end(messages, position, doing)
                keys = pa.array(list(map(Message.key, messages)), pa.binary())
            records = _records(number, keys, messages)
            del messages
        if len(keys):
            position = max(position, int(records.offsets[-1]) + 1)
            yield records


def _messages_up_to_end(messages: list[Any], position: int, doing: str) -> tuple[list[Any], int]:
    """Return the records among what the client delivered, and where in the log it is."""
    for message in messages:
        error = message.error()
        if error is None:
            continue
        if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
            raise BrokerRefused(f"{doing}: {read_error(error)}")
        position = max(position, message.offset())
    return [message for message in messages if message.key() is not None], position


def _records(number: int, keys: Any, messages: list[Any]) -> Records:
    count = len(messages)
    return Records(
        number,
        keys,
        pa.array(list(map(Message.value, messages)), pa.binary()),
        np.fromiter(map(Message.offset, messages), np.int64, count),
        np.fromiter(map(itemgetter(1), map(Message.timestamp, messages)), np.int64, count),
    )
