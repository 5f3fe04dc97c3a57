"""Which partitions the tasks of streams groups read."""

import pytest
from applications import Applications, eventually

from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Member, TopicPartition
from toolkit.sandbox.raw_members import RawConnection, StreamsInstance
from toolkit.sandbox.seed import SeededGroup

pytestmark = [pytest.mark.starts("a broker"), pytest.mark.since("4.2")]


def test_topics_with_different_numbers_of_partitions(apps: Applications) -> None:
    """Each task reads its number of each topic, as far as that has such a partition."""
    large = apps.create_topic(apps.name("large"), partitions=3)
    small = apps.create_topic(apps.name("small"), partitions=1)
    group = apps.name("streams")
    instance = StreamsInstance(SeededGroup(group, "", "", reads=(large, small)))

    def owner(broker: RawConnection) -> list[Member]:
        instance.heartbeat(broker)
        found = read_snapshot(apps.cluster, groups=[group])
        assert () == found.problems
        (member,) = found.groups[0].members
        return [member] if member.assignment else []

    with RawConnection(apps.address, client_id=group) as broker:
        instance.join(broker)
        (member,) = eventually(lambda: owner(broker))
        instance.leave(broker)

    wanted = [TopicPartition(large, number) for number in range(3)] + [TopicPartition(small, 0)]
    assert sorted(wanted) == [*member.assignment]
