from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from timed_records import produce

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.logs.offsets_by_time import read_offsets_at
from toolkit.model import Problem, TimedOffset, TopicPartition

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def timed(apps: Any) -> Any:
    """Return a topic with a record a minute from noon on, the fourth of them late, and p1 empty."""
    topic = apps.create_topic(apps.name("timed"), partitions=2)
    times = [NOON, NOON + MINUTE, NOON + 2 * MINUTE, NOON, NOON + 4 * MINUTE]
    produce(apps.address, TopicPartition(topic, 0), times)
    return topic


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (datetime(1900, 1, 1, tzinfo=UTC), TimedOffset(0, NOON)),
        (NOON, TimedOffset(0, NOON)),
        (NOON + timedelta(microseconds=1), TimedOffset(1, NOON + MINUTE)),
        (NOON + MINUTE, TimedOffset(1, NOON + MINUTE)),
        (NOON + 3 * MINUTE, TimedOffset(4, NOON + 4 * MINUTE)),  # not the late one at offset 3
        (NOON + 5 * MINUTE, None),
    ],
)
def test_first_record_at_or_after(
    apps: Any, timed: str, at: datetime, expected: TimedOffset | None
) -> None:
    """The first record at or after the instant is found; past the last one, or in none, nothing."""
    partitions = [TopicPartition(timed, 0), TopicPartition(timed, 1)]
    with Connection(apps.cluster) as connection:
        found, problems = read_offsets_at(connection, dict.fromkeys(partitions, at))

    assert found == {partitions[0]: expected, partitions[1]: None}
    assert problems == []


def test_what_does_not_exist(apps: Any, timed: str) -> None:
    """A partition that does not exist costs only itself."""
    gone = [TopicPartition(timed, 7), TopicPartition("no-such-topic", 0)]
    with Connection(apps.cluster) as connection:
        found, problems = read_offsets_at(
            connection, dict.fromkeys([TopicPartition(timed, 0), *gone], NOON)
        )

    assert found == {TopicPartition(timed, 0): TimedOffset(0, NOON)}
    assert set(problems) == {
        Problem("offsets by time", "the partition does not exist", None, timed, 7),
        Problem("offsets by time", "the topic does not exist", None, "no-such-topic", 0),
    }


def test_more_partitions_than_a_request_holds(apps: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions that take several requests are all answered, each with its own record."""
    monkeypatch.setattr("toolkit.kafka_io.client.leaders.PARTITIONS_PER_REQUEST", 2)
    topic = apps.create_topic(apps.name("wide"), partitions=5)
    expected = {}
    for number in range(5):
        at = NOON + number * MINUTE
        produce(apps.address, TopicPartition(topic, number), [at])
        expected[TopicPartition(topic, number)] = TimedOffset(0, at)
    with Connection(apps.cluster) as connection:
        found, problems = read_offsets_at(connection, dict.fromkeys(expected, NOON))

    assert problems == []
    assert found == expected
