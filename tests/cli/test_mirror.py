"""`offsetbook copy --to-cluster`: a group's offsets on another cluster with the same records."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from timed_records import produce

from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Cluster, TopicPartition

Command = Callable[..., "CompletedProcess[str]"]
TIMES = [datetime(2025, 10, 9, 9, tzinfo=UTC) + timedelta(seconds=n) for n in range(17)]
EARLIER = 7  # records that only the mirror has, before all others


@pytest.fixture
def mirrored(
    applications: Callable[[Cluster], Any], bare_cluster: Cluster, kafka_39: Cluster
) -> tuple[str, str]:
    """Return a group and its topic, of which the mirror has the same records at other offsets."""
    here, there = applications(bare_cluster), applications(kafka_39)
    topic, group = here.create_topic(here.name("orders")), here.name("pay")
    there.create_topic(topic)
    produce(here.address, TopicPartition(topic, 0), TIMES[EARLIER:])
    produce(there.address, TopicPartition(topic, 0), TIMES)
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
