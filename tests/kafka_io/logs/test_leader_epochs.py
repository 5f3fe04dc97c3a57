from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from applications import eventually

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.groups.commits import read_commits
from toolkit.kafka_io.logs.log_offsets import read_log_offsets, with_epochs
from toolkit.model import Cluster, EpochEnd, LogOffsets, Problem, TopicPartition, Unread
from toolkit.planning.changes.clamp import leader_epoch_at
from toolkit.sandbox.broker import start_broker

pytestmark = pytest.mark.starts("a broker")

RECORDS = (5, 3, 4)  # written under one leader epoch each
SUM = sum(RECORDS)


@pytest.fixture(scope="module")
def led_thrice(
    tmp_path_factory: pytest.TempPathFactory,
    applications_until: Callable[[Cluster, ExitStack], Any],
) -> Iterator[Any]:
    """Return the applications on a broker that was restarted twice between the records of `t`."""
    directory = tmp_path_factory.mktemp("led_thrice")
    broker = start_broker(directory)
    try:
        with ExitStack() as ending:
            apps = applications_until(Cluster("led", broker.address), ending)
            apps.create_topic("t", partitions=2)
            apps.create_topic("cut")
            for number, records in enumerate(RECORDS):
                if number:
                    broker.stop()
                    broker = start_broker(directory)
                for topic in ("t", "cut"):
                    apps.produce(topic, 0, records)
            apps.delete_records("cut", 0, RECORDS[0] + 1)
            yield apps
    finally:
        broker.stop()


def epochs(apps: Any, topic: str, number: int = 0) -> LogOffsets:
    """Return the log of a partition with its epochs, which can all be read."""
    partition = TopicPartition(topic, number)
    with Connection(apps.cluster) as connection:
        logs, unread = read_log_offsets(connection, [partition])
        found, problems = with_epochs(connection, logs)
    assert unread == problems == []
    return found[partition]


def test_every_epoch_and_where_it_ends(led_thrice: Any) -> None:
    """The epochs come oldest first, with the ends of what was written under them."""
    log = epochs(led_thrice, "t")

    assert [end.end_offset for end in log.epochs] == [5, 8, 12]
    assert log.epochs[0].leader_epoch == 0
    assert sorted({end.leader_epoch for end in log.epochs}) == [e.leader_epoch for e in log.epochs]


def test_empty_partition_has_the_current_epoch_only(led_thrice: Any) -> None:
    """A partition that was never written to has an epoch without records."""
    log = epochs(led_thrice, "t", 1)

    assert [end.end_offset for end in log.epochs] == [0]
    assert leader_epoch_at(log, 0) is None


def test_as_consumers_commit_it(led_thrice: Any) -> None:
    """The epoch worked out for each offset is the one that a client commits after reading to it."""
    partition = TopicPartition("t", 0)
    group = led_thrice.name("reader")
    consumer = led_thrice.consumer(group, **{"auto.offset.reset": "earliest"})
    consumer.assign([led_thrice.position(partition, 0)])
    committed = {}
    with Connection(led_thrice.cluster) as connection:
        for _ in range(SUM):
            message = eventually(lambda: consumer.poll(1))
            consumer.commit(message, asynchronous=False)
            ((commit,), _) = read_commits(connection, [group])
            committed[commit.offset] = commit.leader_epoch
    log = epochs(led_thrice, "t")

    assert committed == {offset: leader_epoch_at(log, offset) for offset in range(1, SUM + 1)}
    assert len(set(committed.values())) == len(RECORDS)


def test_epochs_of_a_log_that_was_cut(led_thrice: Any) -> None:
    """Where the oldest epoch is gone from the log, the next one is known to the log start."""
    whole, cut = epochs(led_thrice, "t"), epochs(led_thrice, "cut")

    assert cut.log_start == 6
    assert {n: leader_epoch_at(cut, n) for n in range(6, SUM + 1)} == {
        6: leader_epoch_at(whole, 7),  # nothing read yet: the epoch of the record there
        **{n: leader_epoch_at(whole, n) for n in range(7, SUM + 1)},
    }


def test_older_epochs_stay_unknown_after_some_rounds(
    led_thrice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of requests is bounded, and what was not asked for is not guessed."""
    monkeypatch.setattr("toolkit.kafka_io.logs.log_offsets.MAX_ROUNDS", 2)
    log = epochs(led_thrice, "t")

    assert [end.end_offset for end in log.epochs] == [8, 12]
    assert [3, 8] == [offset for offset in (3, 8, 9, 12) if leader_epoch_at(log, offset) is None]


def test_a_missing_partition_keeps_its_row(led_thrice: Any) -> None:
    """It has no epochs, and a problem with the reason."""
    there, gone = TopicPartition("t", 1), TopicPartition("no-such-topic", 0)
    logs = {there: LogOffsets(0, 0, 0), gone: LogOffsets(0, 9, 9)}
    with Connection(led_thrice.cluster) as connection:
        found, problems = with_epochs(connection, logs)

    assert found[gone] == logs[gone]
    assert [EpochEnd(found[there].epochs[0].leader_epoch, 0)] == list(found[there].epochs)
    assert [Problem(Unread.LEADER_EPOCHS, "the topic does not exist", None, *gone)] == problems
