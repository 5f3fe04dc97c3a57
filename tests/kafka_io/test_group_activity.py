"""What groups did, counted from a real broker's log, against what was really done."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pytest
from applications import PATIENCE_S
from fleet_tasks import blocks_of, judged, tasks_of
from raw_classic import commit

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.groups.commits import read_commits
from toolkit.kafka_io.writes.commit_and_delete import GroupWriter
from toolkit.model import Cluster, TopicPartition
from toolkit.planning.lag.status_rules import StatusRules
from toolkit.spark.judge import EvaluationRules

pytestmark = [
    pytest.mark.slow("waits for a time that broker metrics count"),
    pytest.mark.starts("a broker"),
]


def rebalanced(apps: Any, group: str, topic: str, protocol: str) -> tuple[Any, int]:
    """Have a member, a second one, and only the first again; return it and how often it changed."""
    changes: list[int] = []
    first = apps.consumer(group, **{"group.protocol": protocol, "auto.offset.reset": "earliest"})
    first.subscribe([topic], on_assign=lambda _, owned: changes.append(len(owned)))

    def owned(*consumers: Any) -> list[int]:
        for consumer in consumers:
            consumer.poll(0.1)
        return [len(consumer.assignment()) for consumer in consumers]

    apps.eventually(lambda: owned(first) == [2])
    second = apps.consumer(group, **{"group.protocol": protocol})
    second.subscribe([topic])
    apps.eventually(lambda: owned(first, second) == [1, 1])
    second.close()
    apps.eventually(lambda: owned(first) == [2])
    return first, len(changes)


def committed(apps: Any, group: str) -> int:
    with Connection(apps.cluster) as connection:
        return len(read_commits(connection, [group])[0])


def summed(cluster: Cluster) -> pd.DataFrame:
    """Return the activity of the last hour by group, as the fleet job counts it."""
    now = datetime.now(UTC)
    rules = EvaluationRules(StatusRules(), now, 30, now - timedelta(hours=1))
    return judged(cluster, blocks_of(tasks_of(cluster)), rules)["activity"].set_index("group")


def test_counts_equal_what_happened(minute_apps: Any) -> None:
    """Commits, expirations, deletions of every kind, and rebalances of real consumers."""
    apps = minute_apps
    kept = apps.create_topic("kept", partitions=3, records=50)
    dropped = apps.create_topic("dropped", partitions=2)
    two = apps.create_topic("two", partitions=2, records=20)
    places = [TopicPartition(kept, number) for number in range(3)]
    # Before any commit: what is deleted below has to be there until then, which is for a minute.
    members = {name: rebalanced(apps, name, two, name) for name in ("classic", "consumer")}
    for member, _ in members.values():
        for offset in range(1, 8):
            position = apps.position(TopicPartition(two, 0), offset)
            member.commit(offsets=[position], asynchronous=False)
    commit(apps.address, "quiet", dict.fromkeys(places, 1))
    for offset in range(1, 21):
        commit(apps.address, "busy", {places[0]: offset})
    for offset in range(1, 6):
        commit(apps.address, "busy", {places[1]: offset})
    commit(apps.address, "topic-gone", {TopicPartition(dropped, n): 1 for n in range(2)})
    commit(apps.address, "group-gone", dict.fromkeys(places[:2], 1))
    with Connection(apps.cluster) as connection:
        GroupWriter(connection).delete_offsets("busy", [places[1]])
    apps.delete_topic(dropped)
    apps.admin.delete_consumer_groups(["group-gone"])["group-gone"].result(PATIENCE_S)
    apps.eventually(lambda: not committed(apps, "quiet"))
    apps.eventually(lambda: not committed(apps, "busy"))
    table = summed(apps.cluster)
    counts = table[["commits", "expirations", "deletions", "removals"]]

    assert {
        "quiet": [3, 3, 0, 0],
        "topic-gone": [2, 0, 2, 0],
        "group-gone": [2, 0, 2, 0],
        "busy": [25, 1, 1, 0],
        "classic": [7, 0, 0, 0],
        "consumer": [7, 0, 0, 0],
    } == {group: counts.loc[group].tolist() for group in table.index}
    assert [3, 3] == [table["rebalances"][protocol] for protocol in members]
    assert members["classic"][1] == 3
    assert table["complete"].all()
    assert not table["commits_too_often"].any()
