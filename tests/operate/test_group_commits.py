"""Waiting for the last commits to held partitions."""

import pytest
from applications import Applications
from operators import Operator

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.shared_connections import connected
from toolkit.kafka_io.offsets_topic.commit_follower import NewCommit
from toolkit.model import TopicPartition
from toolkit.operate.group_commits import (
    LOOK_EVERY_S,
    STILL_AT_MOST_S,
    GroupCommits,
    apart_s,
    wait_until_still,
)

ORDERS, AUDIT = TopicPartition("orders", 0), TopicPartition("audit", 0)


class CommitsAtEachLook(GroupCommits):
    """A group that commits once more whenever somebody looks, so many times."""

    def __init__(
        self, connection: Connection, operator: Operator, group: str, place: TopicPartition
    ) -> None:
        super().__init__(connection, group)
        self.operator, self.place = operator, place
        self.looks = self.left = 0

    def compare_only(self) -> None:
        """Do without the offsets topic, as a user who may not read it."""
        self._follower = None

    def mark(self) -> None:
        """Commit the next offset first."""
        self.looks += 1
        if self.left:
            self.left -= 1
            self.operator.commit(self.group_id, {self.place: 9 - self.left % 5})
        super().mark()


@pytest.mark.parametrize("reads_topic", [True, False])
def test_it_waits_while_commits_arrive(
    operator: Operator,
    apps: Applications,
    orders: tuple[TopicPartition, TopicPartition],
    *,
    reads_topic: bool,
) -> None:
    """Each commit of a held partition restarts the wait; those of others do not."""
    group, (held, other) = apps.name("late"), orders
    with connected(operator.cluster) as connection:
        commits = CommitsAtEachLook(connection, operator, group, held)
        if not reads_topic:
            commits.compare_only()
        commits.left = enough = round(2 * STILL_AT_MOST_S / LOOK_EVERY_S)
        wait_until_still(commits, {held})

        assert commits.left == 0
        assert commits.looks > enough
        commits.place, commits.left, commits.looks = other, 10 * enough, 0
        wait_until_still(commits, {held})

        assert 1 < commits.looks < 9 * enough
        assert commits.has_every_commit is reads_topic


def test_a_caught_up_group_is_not_waited_for(
    operator: Operator, apps: Applications, orders: tuple[TopicPartition, TopicPartition]
) -> None:
    """It has no records left to commit."""
    group, (held, _) = apps.name("done"), orders
    operator.commit(group, {held: 10})
    with connected(operator.cluster) as connection:
        commits = CommitsAtEachLook(connection, operator, group, held)
        wait_until_still(commits, {held})

    assert commits.looks == 1


def test_a_partition_whose_end_is_unknown_is_waited_for(
    operator: Operator, apps: Applications, orders: tuple[TopicPartition, TopicPartition]
) -> None:
    """An unknown log end does not mean that the partition is read to the end."""
    group, (held, _) = apps.name("unknown"), orders
    with connected(operator.cluster) as connection:
        commits = CommitsAtEachLook(connection, operator, group, held)
        wait_until_still(commits, {TopicPartition(apps.name("missing"), 0)})

    assert commits.looks > 1


@pytest.mark.parametrize(
    ("commits", "seconds"),
    [
        ((), 0),
        ((NewCommit(ORDERS, 1, 1000), NewCommit(AUDIT, 1, 9000)), 0),
        (
            (
                NewCommit(ORDERS, 1, 1000),
                NewCommit(AUDIT, 1, 1500),
                NewCommit(ORDERS, 2, 3500),
                NewCommit(ORDERS, 3, 4000),
            ),
            2.5,
        ),
    ],
)
def test_the_time_between_commits(commits: tuple[NewCommit, ...], seconds: float) -> None:
    """The longest time between two commits of one partition."""
    assert apart_s(commits) == seconds
