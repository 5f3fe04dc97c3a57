"""Whatever a broker leaves out of an answer, or does not let us see, is a row that says so."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NoReturn

import pytest

from toolkit.errors import ClusterUnreachable
from toolkit.kafka_io.client.connection import AT_ONCE, Connection, Response, TaggedRequest
from toolkit.kafka_io.groups import listing
from toolkit.kafka_io.groups.commits import read_commits
from toolkit.kafka_io.groups.listing import list_groups
from toolkit.kafka_io.logs.log_offsets import read_log_offsets, read_offsets_at
from toolkit.model import Cluster, TopicPartition

EARLY = datetime(2020, 1, 1, tzinfo=UTC)
UNREACHABLE = 77  # the id of a broker


class Forgetful(Connection):
    """A connection whose brokers leave one group or topic out of every answer."""

    forgotten = ""

    def send_each(
        self, asks: Mapping[int, Iterable[TaggedRequest]], *, at_once: int = AT_ONCE
    ) -> Iterator[Response]:
        """Take the forgotten name out of real answers."""
        for answer in super().send_each(asks, at_once=at_once):
            response: Any = answer.response
            if hasattr(response, "groups"):
                response.groups = [g for g in response.groups if g.group_id != self.forgotten]
            else:
                response.topics = [t for t in response.topics if t.name != self.forgotten]
            yield answer


def test_a_group_that_an_answer_leaves_out_is_a_problem(
    bare_cluster: Cluster, apps: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group that was asked about and not answered is not taken for one without offsets."""
    # It is asked again once instead of for ten seconds.
    monkeypatch.setattr("toolkit.kafka_io.client.coordinators.RETRY_FOR_S", 0.0)
    topic = apps.create_topic(apps.name("left-out"), records=1)
    kept, lost = apps.name("kept"), apps.name("lost")
    for group in (kept, lost):
        apps.commit(group, {TopicPartition(topic, 0): 1})
    with Forgetful(bare_cluster) as connection:
        connection.forgotten = lost
        commits, problems = read_commits(connection, [kept, lost])

    (problem,) = problems
    assert ([kept], lost) == ([commit.group_id for commit in commits], problem.group_id)
    assert "missing in the broker's response" in problem.why


class SlowStorage(Connection):
    """A connection whose leaders do not find what is in remote storage in time, some times."""

    times = 0

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.limits_ms: list[int] = []

    def send_each(
        self, asks: Mapping[int, Iterable[TaggedRequest]], *, at_once: int = AT_ONCE
    ) -> Iterator[Response]:
        """Keep the limits of the requests, and put an error into the answers."""
        kept = {node: [*sequence] for node, sequence in asks.items()}
        self.limits_ms += [ask.request.timeout_ms for one in kept.values() for ask in one]
        self.times -= 1
        for answer in super().send_each(kept, at_once=at_once):
            for topic in answer.response.topics if self.times >= 0 else ():
                for found in topic.partitions:
                    found.error_code = 0 if found.partition_index else 7
            yield answer


@pytest.mark.parametrize(("times", "unread"), [(1, []), (2, ["REQUEST_TIMED_OUT, code 7"])])
def test_a_slow_lookup_is_repeated(
    times: int, unread: list[str], bare_cluster: Cluster, apps: Any
) -> None:
    """What one leader lacks does not affect the others."""
    topic = apps.create_topic(apps.name("tiered"), partitions=2, records=3)
    slow, quick = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with SlowStorage(bare_cluster) as connection:
        connection.times = times
        found, problems = read_offsets_at(connection, dict.fromkeys([slow, quick], EARLY))
        connection.times = 0
        read_log_offsets(connection, [quick])

    assert quick in found
    assert unread == [problem.why[-len(unread[0]) - 1 : -1] for problem in problems]
    assert (slow in found) == (not unread)
    assert all(0 < limit < bare_cluster.timeout_s * 1000 for limit in connection.limits_ms)


class Measured(Connection):
    """A connection that counts the partitions in each answer about groups."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.sizes: list[int] = []

    def send_each(self, asks: Mapping[int, Iterable[TaggedRequest]]) -> Iterator[Response]:
        for answer in super().send_each(asks):
            topics = [topic for group in answer.response.groups for topic in group.topics]
            self.sizes.append(sum(len(topic.partitions) for topic in topics))
            yield answer


def test_answers_are_no_larger_than_a_coordinator_may_send(
    bare_cluster: Cluster, apps: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests are about fewer groups where groups have many offsets, and nothing is left out."""
    monkeypatch.setattr("toolkit.kafka_io.client.coordinators.FEWEST_GROUPS", 2)
    monkeypatch.setattr("toolkit.kafka_io.client.coordinators.ELEMENTS_PER_ANSWER", 10)
    topic = apps.create_topic(apps.name("sizes"), partitions=5)
    groups = [apps.name(f"size-{number}") for number in range(12)]
    for group in groups:
        apps.commit(group, {TopicPartition(topic, number): 0 for number in range(5)})
    with Measured(bare_cluster) as connection:
        commits, problems = read_commits(connection, groups)

    assert [] == problems
    assert {(group, number) for group in groups for number in range(5)} == {
        (commit.group_id, commit.partition) for commit in commits
    }
    assert max(connection.sizes) <= 10


def test_a_partition_that_an_answer_leaves_out_is_a_problem(
    bare_cluster: Cluster, apps: Any
) -> None:
    """A partition that was asked about and not answered keeps its row, with the reason."""
    kept, lost = (apps.create_topic(apps.name(n), records=1) for n in ("kept", "lost"))
    with Forgetful(bare_cluster) as connection:
        connection.forgotten = lost
        logs, problems = read_log_offsets(
            connection, [TopicPartition(kept, 0), TopicPartition(lost, 0)]
        )

    assert [TopicPartition(kept, 0)] == list(logs)
    assert [lost] == [problem.topic for problem in problems]


class OneMore(Connection):
    """A connection to a cluster with a broker that cannot be reached from here."""

    @property
    def broker_ids(self) -> tuple[int, ...]:
        """The brokers, with one that does not answer."""
        return (*super().broker_ids, UNREACHABLE)


def test_a_broker_without_groups_hides_none(bare_cluster: Cluster, apps: Any) -> None:
    """A silent broker is a problem where it leads a partition of the offsets topic, or may."""
    apps.commit(apps.name("any"), {TopicPartition(apps.create_topic(apps.name("t")), 0): 0})
    silent = {UNREACHABLE: ClusterUnreachable("no connection")}
    with OneMore(bare_cluster) as connection:
        assert [] == list_groups(connection)[1]
        told = [listing._hidden_by(connection, silent, of) for of in ({}, {0: UNREACHABLE})]

    assert [["those coordinated by broker 77: no connection"]] * 2 == [
        [problem.why for problem in one] for one in told
    ]


class NoLeadersNow(Connection):
    """A connection that was lost since the groups were listed."""

    def send(self, *_: object, **__: object) -> NoReturn:
        raise ClusterUnreachable("the last broker is gone")


def test_a_listing_stays_if_leaders_cannot_be_asked_again(bare_cluster: Cluster) -> None:
    """Then the silent broker is a problem: it may lead partitions."""
    silent = {UNREACHABLE: ClusterUnreachable("no connection")}
    with NoLeadersNow(bare_cluster) as connection:
        (problem,) = listing._hidden_by(connection, silent, {0: 1})

    assert "those coordinated by broker 77: no connection" == problem.why


def test_no_password_in_the_debug_log(secured: Any, caplog: pytest.LogCaptureFixture) -> None:
    """DEBUG logging does not write the password into a notebook's output."""
    with caplog.at_level(logging.DEBUG), Connection(secured.sasl) as connection:
        assert connection.broker_ids

    assert "sasl_plain_password" not in caplog.text
    assert "right" not in [word.strip("',\"\\0") for word in caplog.text.split()]
