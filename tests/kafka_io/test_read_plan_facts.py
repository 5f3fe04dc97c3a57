from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import TopicCollection
from idle_groups import idle_group
from kafka.protocol.metadata import MetadataRequest
from timed_records import produce

from toolkit.errors import NotFound
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.read_plan_facts import read_plan_facts
from toolkit.kafka_io.read_snapshot import read_one_group, read_snapshot
from toolkit.model import Cluster, Problem, TimedOffset, TopicPartition, Unread

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def planned(apps: Any) -> Any:
    """Return a group with a commit, its topic, and another topic that it never read."""
    group, (place,) = idle_group(apps, 2, records=5)
    new = apps.create_topic(apps.name("new"), partitions=2, records=3)
    return group, place.topic, new


def test_facts_beyond_a_snapshot(apps: Any, planned: Any) -> None:
    """Named topics are read whole, logs have epochs, topics their ids."""
    group, read, new = planned
    plain = read_snapshot(apps.cluster, groups=[group])
    facts = read_plan_facts(apps.cluster, groups=[group], topics=[new])

    ends = {key: (log.log_start, log.last_stable, log.log_end) for key, log in facts.logs.items()}
    assert ends == {
        TopicPartition(read, 0): (0, 5, 5),
        TopicPartition(new, 0): (0, 3, 3),
        TopicPartition(new, 1): (0, 3, 3),
    }
    assert {key: log.epochs for key, log in facts.logs.items()} == {
        key: ((0, log.log_end),) for key, log in facts.logs.items()
    }
    # librdkafka writes ids in the other alphabet of base64.
    url_safe = str.maketrans("+/", "-_")
    assert facts.topic_ids == {
        name: str(described.result().topic_id).translate(url_safe)
        for name, described in apps.admin.describe_topics(TopicCollection([read, new])).items()
    }
    assert [(c.offset, c.committed_at is None) for c in facts.commits] == [(2, False)]
    assert plain.groups[0].group_id == facts.groups[0].group_id == group
    assert (facts.at, facts.at_time, facts.problems) == (None, {}, ())


def test_each_topic_is_described_once(
    apps: Any, planned: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leaders, epochs, ids and where logs stood come from one description of each topic."""
    group, read, new = planned
    asked: list[str] = []
    send = Connection.send

    def noted(self: Connection, request: Any, **to: Any) -> Any:
        if isinstance(request, MetadataRequest):
            asked.extend(topic.name for topic in request.topics or ())
        return send(self, request, **to)

    monkeypatch.setattr(Connection, "send", noted)
    facts = read_plan_facts(apps.cluster, groups=[group], topics=[new], at=NOON)

    assert [(TopicPartition(read, 0), (0, 5, 5)), (TopicPartition(new, 1), (0, 3, 3))] == [
        (place, (log.log_start, log.last_stable, log.log_end))
        for place, log in sorted(facts.logs.items(), key=lambda one: one[0].topic == new)
        if place.partition or place.topic == read
    ]
    assert {"__consumer_offsets": 1, new: 1, read: 1} == {
        name: asked.count(name) for name in sorted(asked) if not name.startswith("offsetbook-")
    }


def test_where_logs_stood(apps: Any, planned: Any) -> None:
    """With an instant, every partition says where it stood, also one with nothing that young."""
    group, read, new = planned
    later = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    produce(apps.address, TopicPartition(new, 1), [later])
    facts = read_plan_facts(apps.cluster, groups=[group], topics=[new], at=later)

    assert facts.at == later
    assert facts.at_time == {
        TopicPartition(read, 0): None,
        TopicPartition(new, 0): None,
        TopicPartition(new, 1): TimedOffset(3, later),
    }


def test_topic_that_does_not_exist(bare_cluster: Cluster, planned: Any) -> None:
    """A topic that was named and does not exist is a problem, and everything else is read."""
    group, read, _ = planned
    facts = read_plan_facts(bare_cluster, groups=[group], topics=[read, "no-such-topic"])

    assert [Problem(Unread.TOPIC, "the topic does not exist", topic="no-such-topic")] == list(
        facts.problems
    )
    assert list(facts.logs) == [TopicPartition(read, 0)]
    assert list(facts.topic_ids) == [read]


def test_partition_without_a_leader(lost_broker: Any) -> None:
    """It is a problem, reported once, and has no log."""
    topic = lost_broker.gone.topic
    facts = read_plan_facts(lost_broker.cluster, groups=["half"], topics=[topic], at=NOON)

    assert {} == facts.logs
    assert [Problem(Unread.LOG_OFFSETS, "it has no leader", None, topic, 0)] == [
        problem for problem in facts.problems if problem.topic == topic
    ]


def test_a_name_is_no_pattern(apps: Any) -> None:
    """A group that is called like a pattern is read by itself, and a pattern is no group."""
    partition = TopicPartition(apps.create_topic(apps.name("one"), records=3), 0)
    stem = apps.name("group")
    for name in (f"{stem}*", f"{stem}-a", f"[{stem}]"):
        apps.commit(name, {partition: 1})

    for name in (f"{stem}*", f"[{stem}]"):
        facts, group = read_one_group(apps.cluster, name)
        assert ([name], name) == ([g.group_id for g in facts.groups], group.group_id)
        assert [name] == [commit.group_id for commit in facts.commits]
    with pytest.raises(NotFound, match="no group named"):
        read_one_group(apps.cluster, f"{stem}-?")
