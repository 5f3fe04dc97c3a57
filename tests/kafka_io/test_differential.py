"""Our numbers beside those of `kafka-consumer-groups`, on a broker where nothing moves."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pandas as pd
import pytest
from clients import Producer

from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Cluster, GroupType, Snapshot, TopicPartition
from toolkit.planning.frames.snapshot_frames import groups_frame, offsets_frame
from toolkit.planning.lag.lag import BEYOND_LOG_END, LOST_RECORDS, NO_COMMIT, with_lag
from toolkit.sandbox.broker import VERSION, start_broker
from toolkit.sandbox.jars import kafka_jars
from toolkit.spark.java import find_java

pytestmark = pytest.mark.starts("a broker")

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
Row = tuple[str, str, int]


class ToolRow(NamedTuple):
    """What the tool prints about one partition; None where it prints a dash."""

    committed: int | None
    log_end: int | None
    lag: int | None


def run_tool(cluster: Cluster, *arguments: str) -> str:
    """Return what the real tool prints."""
    command = [str(find_java()), "-cp", f"{kafka_jars(VERSION)}/*", TOOL]
    where = ("--bootstrap-server", cluster.bootstrap_servers, "--timeout", "60000")
    done = subprocess.run(
        [*command, *where, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout


def number(text: str) -> int | None:
    """Return a number of the tool's; None for its dash."""
    return None if text == "-" else int(text)


def described(cluster: Cluster) -> dict[Row, ToolRow]:
    """Return the rows of `--describe --all-groups`."""
    rows = {}
    for line in run_tool(cluster, "--describe", "--all-groups").splitlines():
        cells = line.split()
        if len(cells) >= 6 and cells[0] != "GROUP":
            rows[cells[0], cells[1], int(cells[2])] = ToolRow(*map(number, cells[3:6]))
    return rows


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a broker that no other test uses."""
    broker = start_broker(tmp_path_factory.mktemp("differential"))
    yield Cluster("quiet", broker.address)
    broker.stop()


@pytest.fixture(scope="module")
def snapshot(quiet: Cluster, applications_until: Any) -> Iterator[Snapshot]:
    """Return a snapshot of the broker, on which there are groups of every sort."""
    with ExitStack() as ending:
        apps = applications_until(quiet, ending)
        producer = apps.transaction("differential")
        ending.callback(producer.abort_transaction)
        make_groups(apps, producer)
        yield apps.eventually(lambda: _settled(quiet))


def make_groups(apps: Any, producer: Producer) -> None:
    """Make groups in every position, live and left, and one partition held by a transaction."""
    for topic, partitions in {"ta": 3, "tb": 2, "cut": 1, "txn": 1}.items():
        apps.create_topic(topic, partitions=partitions, records=100)
    apps.create_topic("empty")
    apps.delete_records("cut", 0, 40)
    for partition in range(3):
        apps.commit(f"simple-{partition}", {TopicPartition("ta", partition): 50 + partition})
    apps.commit("at-the-end", {TopicPartition("ta", 0): 100, TopicPartition("empty", 0): 0})
    apps.commit("before-the-start", {TopicPartition("cut", 0): 10})
    apps.commit("beyond-the-end", {TopicPartition("ta", 0): 500})
    for group, protocol in {"live-classic": "classic", "live-modern": "consumer"}.items():
        member = apps.join(group, ["ta", "tb"], protocol=protocol)
        # Partitions of tb stay without a commit.
        offsets = [apps.position(TopicPartition("ta", n), 10 * n) for n in range(3)]
        member.commit(offsets=offsets, asynchronous=False)
    apps.join("left-modern", ["tb"], protocol="consumer").close()
    apps.commit("left-modern", {TopicPartition("tb", 1): 7})
    producer.produce("txn", b"open", partition=0)
    producer.flush()
    apps.commit("reads-committed", {TopicPartition("txn", 0): 100})


def test_the_tool_and_we_say_the_same(quiet: Cluster, snapshot: Snapshot) -> None:
    """Committed, log end and lag are the tool's, but where it is known to be wrong."""
    frame = with_lag(offsets_frame(snapshot))
    told = described(quiet)

    ours = {
        (row.group, row.topic, row.partition): ToolRow(
            *(None if pd.isna(n) else int(n) for n in (row.committed, row.log_end, row.lag))
        )
        for row in frame.itertuples()
    }
    assert {key: row[:2] for key, row in ours.items()} == {k: row[:2] for k, row in told.items()}
    differing = {key for key in ours if ours[key].lag != told[key].lag}
    lost, beyond = ("before-the-start", "cut", 0), ("beyond-the-end", "ta", 0)
    assert differing == {lost, beyond}
    # It counts 90 records where 60 are left, and less than none behind the end.
    assert (told[lost].lag, ours[lost].lag) == (90, 60)
    assert (told[beyond].lag, ours[beyond].lag) == (-400, None)


def test_what_the_tool_does_not_say(snapshot: Snapshot) -> None:
    """Lost records, commits beyond the end, missing commits and open transactions are told."""
    frame = with_lag(offsets_frame(snapshot)).set_index(["group", "topic", "partition"])

    lost = frame.loc["before-the-start", "cut", 0]
    assert (lost["position"], lost["lost"]) == (LOST_RECORDS, 30)
    assert frame.loc["beyond-the-end", "ta", 0]["position"] == BEYOND_LOG_END
    assert set(frame.loc["live-modern", "tb"]["position"]) == {NO_COMMIT}
    held_up = frame.loc["reads-committed", "txn", 0]
    assert (held_up["lag"], held_up["stable_lag"]) == (1, 0)


def test_states_and_types_are_the_tools(quiet: Cluster, snapshot: Snapshot) -> None:
    """The list of groups with state and type is the tool's, with simple groups told apart."""
    frame = groups_frame(snapshot)
    types = {"classic": "Classic", "consumer": "Consumer", "simple": "Classic"}

    ours = {(row.group, row.state, types[row.type]) for row in frame.itertuples()}
    states = _columns(run_tool(quiet, "--list", "--state"))
    kinds = _columns(run_tool(quiet, "--list", "--type"))
    assert ours == {(group, state, kinds[group]) for group, state in states.items()}
    simple = set(frame[frame["type"] == GroupType.SIMPLE]["group"])
    assert "simple-0" in simple
    assert "left-modern" not in simple


def _columns(listing: str) -> dict[str, str]:
    """Return the second column of a list by its first."""
    lines = (re.split(r"\s+", line.strip()) for line in listing.splitlines()[1:])
    return {line[0]: line[1] for line in lines if len(line) == 2}


def _settled(cluster: Cluster) -> Snapshot | None:
    """Return a snapshot once both live members own all of their partitions."""
    snapshot = read_snapshot(cluster)
    assert snapshot.problems == ()
    owned = [len(member.assignment) for group in snapshot.groups for member in group.members]
    stable = {str(group.state) for group in snapshot.groups} == {"Stable", "Empty"}
    return snapshot if stable and owned == [5, 5] else None
