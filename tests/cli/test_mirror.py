"""`offsetbook copy --to-cluster`: a group's offsets on another cluster with the same records."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from clients import Producer

from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Cluster, TopicPartition

Command = Callable[..., "CompletedProcess[str]"]
FIRST_MS = 1_760_000_000_000
EARLIER = 7  # records that only the mirror has, before all others


def produce(cluster: Cluster, topic: str, *, before: int, records: int) -> None:
    """Write records a second apart, after some that only this cluster has."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(-before, records):
        value, at = str(number).encode(), FIRST_MS + 1000 * number
        producer.produce(topic, value, partition=0, timestamp=at)
    assert 0 == producer.flush()


@pytest.fixture
def mirrored(
    applications: Callable[[Cluster], Any], bare_cluster: Cluster, kafka_39: Cluster
) -> tuple[str, str]:
    """Return a group and its topic, of which the mirror has the same records at other offsets."""
    here, there = applications(bare_cluster), applications(kafka_39)
    topic, group = here.create_topic(here.name("orders")), here.name("pay")
    there.create_topic(topic)
    produce(bare_cluster, topic, before=0, records=10)
    produce(kafka_39, topic, before=EARLIER, records=10)
    here.commit(group, {TopicPartition(topic, 0): 4})
    return group, topic


@pytest.mark.parametrize(("by", "expected"), [("offset", 4), ("time", 4 + EARLIER)])
def test_a_mirror_goes_on_where_the_source_is(
    by: str, expected: int, mirrored: tuple[str, str], applied: Command, kafka_39: Cluster
) -> None:
    """By offset the group has the same offset on the mirror, by time the same next record."""
    group, topic = mirrored
    name = f"{group}-{by}"
    mirror = ("--to-cluster", "mirror", "--by", by)

    done = applied("copy", "--cluster", "eu", "--group", group, "--to", name, *mirror)

    assert 0 == done.returncode, done.stderr
    commits = read_snapshot(kafka_39, groups=[name]).commits
    assert [(topic, 0, expected)] == [(c.topic, c.partition, c.offset) for c in commits]


@pytest.fixture
def applied(
    approve_shown: Command, fleet_of: Callable[..., Path], bare_cluster: Cluster, kafka_39: Cluster
) -> Command:
    """Return a function that applies what a command plans, on a fleet of both clusters."""
    fleet = fleet_of(eu=bare_cluster.bootstrap_servers, mirror=kafka_39.bootstrap_servers)
    return partial(approve_shown, fleet=fleet)
