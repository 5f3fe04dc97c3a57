"""
The user's applications: a process that keeps the seeded groups of one cluster alive.

Run as `python -m toolkit.sandbox.applications ADDRESS VERSION`. The sandbox is the one declared
exception to "only kafka_io imports a Kafka client": it is not the toolkit but what the toolkit is
used on, so it must not share the toolkit's way to the broker.
"""

from __future__ import annotations

import json
import math
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its stubs name only the first
    AdminClient,
    NewTopic,
    OffsetSpec,
)

from toolkit.model import GroupType
from toolkit.sandbox.raw_members import stay_in
from toolkit.sandbox.seed import (
    BACKLOG,
    CUT_AT,
    HISTORY_HOURS,
    LEFT_AT,
    OPEN_TRANSACTION,
    POISON,
    POISON_OFFSET,
    TOPICS,
    Behaviour,
    SeededGroup,
    seeded_groups,
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
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the stubs skip it
    partitions = _partitions(tuple(topic.name for topic in TOPICS))
    admin = _admin(address)
    return [
        (partition.topic, partition.partition)
        for partition, end in admin.list_offsets(dict.fromkeys(partitions, latest)).items()
        if end.result().offset == 0
    ]


def _record(number: int, at: datetime) -> bytes:
    record = {"id": number, "amount": round(number * 7.3 % 500, 2), "at": at.isoformat()}
    return json.dumps(record).encode()


def _admin(address: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": address})


def _producer(address: str, **settings: object) -> Producer:
    return Producer({"bootstrap.servers": address, "linger.ms": 50, **settings})


_RETRY_AFTER_S = 5
_SLOW_S = 0.5  # for one record


@dataclass(frozen=True, slots=True)
class ApplicationContext:
    """Where the applications run, and until when."""

    address: str
    version: str
    stopped: threading.Event


def main() -> None:
    """Play all applications until a signal ends them; one that breaks ends them all."""
    here = ApplicationContext(sys.argv[1], sys.argv[2], threading.Event())
    for end in (signal.SIGTERM, signal.SIGINT):
        signal.signal(end, lambda *_: here.stopped.set())
    create_topics(here.address)
    write_backlog(here.address)
    # Before any consumer reads: while it is open it would look like the one that stays open.
    producer = commit_a_transaction(here.address)
    parts = [
        partial(keep_producing, here.address, here.stopped),
        partial(open_transaction, producer, here.stopped),
        *(partial(play, group, here) for group in seeded_groups(here.version)),
    ]
    with ThreadPoolExecutor(len(parts)) as together:
        playing = [together.submit(_ending_all, part, here) for part in parts]
    for part in playing:
        part.result()


def _ending_all(part: Callable[[], None], here: ApplicationContext) -> None:
    """Play one part; if it breaks, the process ends and its log says why."""
    try:
        part()
    except BaseException:
        here.stopped.set()
        raise


def play(group: SeededGroup, here: ApplicationContext) -> None:
    """Act as the group's application did before, then as it does now."""
    if group.left:
        leave_offsets(group, here)
    BEHAVIOURS[group.behaviour](group, here)


def leave_offsets(group: SeededGroup, here: ApplicationContext) -> None:
    """Be a member that reads the topics of former times, commit, and leave; once is enough."""
    partitions = _partitions(group.left, offset=LEFT_AT)
    with closing(_consumer(group, here)) as consumer:
        known = retry_while_starting(partial(consumer.committed, partitions, timeout=5))
        if all(partition.offset >= 0 for partition in known):
            return
        consumer.subscribe(list(group.left))
        while not consumer.assignment() and not here.stopped.is_set():
            consumer.poll(0.05)
        consumer.commit(offsets=partitions, asynchronous=False)


def read(group: SeededGroup, here: ApplicationContext, **settings: object) -> None:
    with closing(_consumer(group, here, **settings)) as consumer:
        _subscribe(consumer, group)
        _consume(consumer, here)


def read_slowly(group: SeededGroup, here: ApplicationContext) -> None:
    with closing(_consumer(group, here)) as consumer:
        _subscribe(consumer, group)
        _consume(consumer, here, handle=lambda _: here.stopped.wait(_SLOW_S))


def read_as_html(group: SeededGroup, here: ApplicationContext) -> None:
    """Subscribe, with markup in every name that an application may choose."""
    settings = {"client.id": '"><script>alert(2)</script>', "enable.auto.offset.store": False}

    def store(message: Any) -> None:
        position = TopicPartition(
            message.topic(), message.partition(), message.offset() + 1, "<b onclick=alert(3)>"
        )
        with suppress(KafkaException):  # the partition was taken away meanwhile
            consumer.store_offsets(offsets=[position])

    with closing(_consumer(group, here, **settings)) as consumer:
        _subscribe(consumer, group)
        _consume(consumer, here, handle=store)


def retry_poison(group: SeededGroup, here: ApplicationContext) -> None:
    """Try a record that cannot be decoded for ever; only its own partition waits for that."""
    retry_at: dict[tuple[str, int], float] = {}

    def handle(message: Any) -> None:
        try:
            json.loads(message.value())
        except ValueError:
            place = TopicPartition(message.topic(), message.partition(), message.offset())
            consumer.pause([place])
            consumer.seek(place)
            retry_at[place.topic, place.partition] = time.monotonic() + _RETRY_AFTER_S
        else:
            consumer.store_offsets(message)

    def resume(until: float | None = None) -> None:
        due = time.monotonic() if until is None else until
        for place in [place for place, at in retry_at.items() if at < due]:
            del retry_at[place]
            consumer.resume([TopicPartition(*place)])

    with closing(_consumer(group, here, **{"enable.auto.offset.store": False})) as consumer:
        # A partition that comes back after a rebalance is read again, from its committed offset;
        # librdkafka would keep it paused.
        consumer.subscribe(list(group.reads), on_revoke=lambda *_: resume(math.inf))
        _consume(consumer, here, handle=handle, meanwhile=resume)


def assign(group: SeededGroup, here: ApplicationContext) -> None:
    """Read all partitions and commit without becoming a member."""
    with closing(_consumer(group, here)) as consumer:
        # Without an offset the client asks for it once, and waits for ever if that goes wrong.
        start = retry_while_starting(
            partial(consumer.committed, _partitions(group.reads), timeout=5)
        )
        for partition in start:
            partition.offset = partition.offset if partition.offset >= 0 else OFFSET_BEGINNING
        consumer.assign(start)
        _consume(consumer, here, handle=lambda message: consumer.commit(message=message))


def stay(group: SeededGroup, here: ApplicationContext) -> None:
    """Be a member of a kind that the client library does not have."""
    stay_in(group, address=here.address, stopped=here.stopped)


def rest(_group: SeededGroup, _here: ApplicationContext) -> None:
    """Do nothing: the application has ended."""


def lose_records(group: SeededGroup, here: ApplicationContext) -> None:
    """Do nothing while the log is cut beyond its offsets, as by a retention that is too short."""
    partitions, admin = _partitions(group.left, offset=CUT_AT), _admin(here.address)
    retry_while_starting(
        lambda: [cut.result() for cut in admin.delete_records(partitions).values()]
    )


BEHAVIOURS: dict[Behaviour, Callable[[SeededGroup, ApplicationContext], None]] = {
    Behaviour.READS: read,
    Behaviour.READS_AS_HTML: read_as_html,
    Behaviour.READS_SLOWLY: read_slowly,
    Behaviour.READS_COMMITTED: lambda group, here: read(
        group, here, **{"isolation.level": "read_committed"}
    ),
    Behaviour.RETRIES: retry_poison,
    Behaviour.ASSIGNS: assign,
    Behaviour.CONNECTS: stay,
    Behaviour.SHARES: stay,
    Behaviour.STREAMS: stay,
    Behaviour.LEFT: rest,
    Behaviour.LEFT_BEHIND: lose_records,
}


def _consumer(group: SeededGroup, here: ApplicationContext, **settings: object) -> Consumer:
    modern = group.type is GroupType.CONSUMER and not here.version.startswith("3.")
    return Consumer(
        {
            "bootstrap.servers": here.address,
            "group.id": group.group_id,
            "group.protocol": "consumer" if modern else "classic",
            "client.id": f"{group.group_id}-1",
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1000,
            # Two answers a second instead of one a record: many applications share few processors.
            "fetch.min.bytes": 10_000,
            "fetch.wait.max.ms": 500,
            **settings,
        }
    )


def _partitions(topics: tuple[str, ...], *, offset: int = OFFSET_INVALID) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, partition, offset)
        for topic in TOPICS
        if topic.name in topics
        for partition in range(topic.partitions)
    ]


def _subscribe(consumer: Consumer, group: SeededGroup) -> None:
    consumer.subscribe([group.pattern] if group.pattern else list(group.reads))


def _consume(
    consumer: Consumer,
    here: ApplicationContext,
    *,
    handle: Callable[[Any], object] = lambda _: None,
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    while not here.stopped.is_set():
        message = consumer.poll(0.5)
        # What a message reports instead of a record (a broker that is away, a topic that was
        # deleted) the client itself gets over.
        if message is not None and not message.error():
            handle(message)
        meanwhile()


if __name__ == "__main__":
    main()
