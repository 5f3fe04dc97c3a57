"""What cannot be read costs its own rows, which say why; everything else is there."""

import json
from pathlib import Path
from typing import Any

import pytest
from applications import eventually
from click.testing import CliRunner
from confluent_kafka.admin import AclOperation, ResourceType
from fleet_tasks import blocks_of, rows_of, tasks_of
from idle_groups import idle_group

from toolkit.cli import cli
from toolkit.cli.reading import FleetReading
from toolkit.errors import BrokerRefused, NotFound
from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.journeys.peek import peek
from toolkit.kafka_io import read_snapshot as snapshot_module
from toolkit.kafka_io.client.shared_connections import connected
from toolkit.kafka_io.groups.group_settings import read_expiry_settings
from toolkit.kafka_io.logs import log_offsets
from toolkit.kafka_io.offsets_topic.partitions import OFFSETS_TOPIC, partition_of
from toolkit.kafka_io.read_plan_facts import read_plan_facts
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Snapshot, TopicPartition, Unread
from toolkit.planning.frames.snapshot_frames import offsets_frame
from toolkit.planning.lag.lag import LOG_UNKNOWN, NO_COMMIT, with_lag
from toolkit.report.lag_report import LagReport
from toolkit.spark.ask import ask_groups
from toolkit.spark.catch_up import FROM_ADMIN, read_newest
from toolkit.spark.read_tasks import LogTask, NothingToRead


def positions(snapshot: Snapshot, group: str) -> dict[tuple[str, int], str]:
    """Return what the lag frame says about each partition of a group."""
    frame = with_lag(offsets_frame(snapshot))
    mine = frame[frame["group"] == group]
    keys = zip(mine["topic"], mine["partition"], strict=True)
    return dict(zip(keys, mine["position"], strict=True))


def test_topic_deleted_under_a_live_group(apps: Any) -> None:
    """A deleted topic that a live group owned is a problem; its other topic is read as ever."""
    gone, kept = apps.create_topic(apps.name("gone")), apps.create_topic(apps.name("kept"))
    group = apps.name("survivor")
    member = apps.join(group, [gone, kept])
    offsets = [apps.position(TopicPartition(kept, 0), 0)]
    member.commit(offsets=offsets, asynchronous=False)
    apps.delete_topic(gone)

    snapshot = read_snapshot(apps.cluster, groups=[group])

    assert [(p.what, p.topic, p.partition, p.why) for p in snapshot.problems] == [
        ("log offsets", gone, 0, "the topic does not exist")
    ]
    assert () == snapshot.read_errors
    assert positions(snapshot, group) == {(gone, 0): NO_COMMIT, (kept, 0): "in range"}


@pytest.mark.parametrize(
    ("module", "step"), [(snapshot_module, "read_log_offsets"), (log_offsets, "ask_leaders")]
)
def test_topic_deleted_while_reading(
    apps: Any, monkeypatch: pytest.MonkeyPatch, module: Any, step: str
) -> None:
    """A topic that goes between its commits and its log ends costs its rows their lag only."""
    gone, kept = apps.create_topic(apps.name("gone")), apps.create_topic(apps.name("kept"))
    group = apps.name("reader")
    apps.commit(group, {TopicPartition(gone, 0): 0, TopicPartition(kept, 0): 0})
    read = getattr(module, step)

    def delete_first(*args: Any) -> Any:
        apps.delete_topic(gone)
        return read(*args)

    monkeypatch.setattr(module, step, delete_first)
    snapshot = read_snapshot(apps.cluster, groups=[group])

    assert [(p.topic, p.why) for p in snapshot.problems] == [(gone, "the topic does not exist")]
    assert 0 == FleetReading([LagReport(snapshot)]).exit_code()
    assert positions(snapshot, group) == {(gone, 0): LOG_UNKNOWN, (kept, 0): "in range"}


def test_denied_group(secured: Any, applications: Any, deny: Any, tmp_path: Path) -> None:
    """A group that we may not describe is a row with the broker's reason; the others are whole."""
    apps = applications(secured.plain)
    topic = apps.create_topic(apps.name("open"), records=5)
    closed, fine = apps.name("closed-group"), apps.name("fine-group")
    offsets = [apps.position(TopicPartition(topic, 0), 2)]
    for group in (closed, fine):
        apps.join(group, [topic]).commit(offsets=offsets, asynchronous=False)
    deny(ResourceType.GROUP, closed, AclOperation.ALL)

    snapshot = read_snapshot(secured.sasl, groups=[closed, fine])

    assert 2 == len(snapshot.problems)
    assert {(p.what, p.group_id) for p in snapshot.problems} == {
        ("members", closed),
        ("committed offsets", closed),
    }
    assert all("GROUP_AUTHORIZATION_FAILED" in problem.why for problem in snapshot.problems)
    by_id = {group.group_id: group for group in snapshot.groups}
    assert not by_id[closed].described
    assert by_id[closed].unreadable_subscription == "the group could not be described"
    assert by_id[fine].subscribed_topics == {topic}
    assert [(c.group_id, c.offset) for c in snapshot.commits] == [(fine, 2)]
    with pytest.raises(BrokerRefused, match="GROUP_AUTHORIZATION_FAILED"):
        peek(ClusterAccess(secured.sasl, tmp_path), closed)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_denied_topic(secured: Any, applications: Any, deny: Any, protocol: str) -> None:
    """A topic that we may not describe costs what depends on it, and that says why."""
    apps = applications(secured.plain)
    closed, fine = (apps.create_topic(apps.name(stem), records=5) for stem in ("closed", "fine"))
    group, other = apps.name("both-topics"), apps.name("one-topic")
    member = apps.join(group, [closed, fine], protocol=protocol)
    eventually(lambda: member.poll(0.1) is None and len(member.assignment()) == 2)
    offsets = [apps.position(TopicPartition(topic, 0), 2) for topic in (closed, fine)]
    member.commit(offsets=offsets, asynchronous=False)
    apps.commit(other, {TopicPartition(fine, 0): 1})
    deny(ResourceType.TOPIC, closed, AclOperation.DESCRIBE)

    snapshot = read_snapshot(secured.sasl, groups=[group, other])
    facts = read_plan_facts(secured.sasl, groups=[group])

    (problem,) = snapshot.problems
    assert "TOPIC_AUTHORIZATION_FAILED" in problem.why
    if protocol == "classic":  # its own bytes still tell that it owns the topic
        assert (problem.what, problem.topic, problem.partition) == ("log offsets", closed, 0)
    else:  # the broker says nothing about a member with such a topic
        assert (problem.what, problem.group_id) == ("members", group)
    # The broker leaves commits of the topic out without a word; the offsets topic has them.
    hidden = [p for p in facts.problems if (p.group_id, p.topic, p.partition) == (group, closed, 0)]
    assert ["committed offset"] == [problem.what for problem in hidden]
    assert "TOPIC_AUTHORIZATION_FAILED" in hidden[0].why
    assert {(c.group_id, c.topic, c.offset) for c in snapshot.commits} == {
        (group, fine, 2),
        (other, fine, 1),
    }
    assert snapshot.logs[TopicPartition(fine, 0)].log_end == 5


def test_hidden_groups_and_topics_are_no_empty_result(
    secured: Any, applications: Any, deny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Describe on topics or the cluster, the result is not "there is nothing"."""
    apps = applications(secured.plain)
    group, _ = idle_group(apps, 2)
    live = apps.name("live")
    topic = apps.create_topic(apps.name("read"), records=5)
    offsets = [apps.position(TopicPartition(topic, 0), 2)]
    apps.join(live, [topic]).commit(offsets=offsets, asynchronous=False)
    fleet = tmp_path / "fleet.yaml"
    entry = {"bootstrap.servers": secured.sasl.bootstrap_servers, **secured.sasl.settings}
    fleet.write_text(json.dumps({"clusters": {"secured": entry}}))
    monkeypatch.setenv("OFFSETBOOK_STATE", str(tmp_path / "state"))

    def run(*words: str) -> tuple[int, str]:
        found = CliRunner().invoke(cli, [*words, "--fleet", str(fleet)], catch_exceptions=False)
        return found.exit_code, found.stdout if words == ("clusters",) else found.stderr

    everything = run("lag", "--group", group)
    deny(ResourceType.TOPIC, "*", AclOperation.DESCRIBE)
    lag = run("lag", "--group", group)
    plans = [
        run("reset", "--group", group, "--to-earliest", "--dry-run"),
        run("rescue", "--group", group, "--dry-run"),
        run("delete-groups", "--group", group, "--dry-run"),
    ]
    hidden = {problem.what for problem in read_plan_facts(secured.sasl, groups=[live]).problems}
    deny(ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE)
    listed = run("groups", "list")
    by_tool = run("consumer-groups", "--list", "--cluster", "secured")
    counted = run("clusters")
    with pytest.raises(NotFound, match="not every group could be listed"):
        run("lag", "--group", "somebody-elses")
    by_name, by_pattern, by_both = (
        read_snapshot(secured.sasl, groups=names, offsets=False).listing_problem
        for names in ([group], [f"{group}*"], [group, f"{group}*"])
    )

    assert (0, "") == everything
    assert 4 == lag[0]
    assert "the ACL Describe on Topic:* is missing" in lag[1]
    assert [3, 3, 3] == [code for code, _ in plans]
    assert all("unknown what it has committed" in told for _, told in plans)
    assert Unread.HIDDEN_COMMITS in hidden
    assert ("", True, True) == (by_name, bool(by_pattern), bool(by_both))
    for code, told in (listed, by_tool, counted):
        assert 4 == code
        assert "the ACL Describe on Cluster is missing" in told


@pytest.fixture
def committed(secured: Any, applications: Any) -> tuple[str, str]:
    """Return a topic of the secured broker, and a group that committed offset 3 of it."""
    group, (place,) = idle_group(applications(secured.plain), 3)
    return place.topic, group


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (AclOperation.ALL, ("TOPIC_AUTHORIZATION_FAILED", NothingToRead)),
        (AclOperation.READ, (OFFSETS_TOPIC, LogTask)),
    ],
    ids=["described", "read"],
)
def test_offsets_topic_that_may_not_be(
    secured: Any, committed: Any, deny: Any, operation: AclOperation, expected: tuple[str, type]
) -> None:
    """Without the offsets topic commits are complete but for their times, and Spark asks Admin."""
    topic, group = committed
    why, kind = expected
    deny(ResourceType.TOPIC, OFFSETS_TOPIC, operation)

    snapshot = read_snapshot(secured.sasl, groups=[group], commit_times=True)
    tasks = tasks_of(secured.sasl)
    rows = rows_of(tasks)

    (problem,) = snapshot.problems
    assert problem.what == "commit times"
    assert why in problem.why
    assert [(c.offset, c.committed_at) for c in snapshot.commits] == [(3, None)]
    assert kind in {type(task) for task in tasks}
    assert kind is LogTask or len(tasks) == 1
    assert any("without commit times" in row.get("problem", "") for row in rows)
    assert [(topic, 0, 3, FROM_ADMIN)] == [
        tuple(row[name] for name in ("topic", "partition", "committed", "source"))
        for row in rows
        if row.get("group") == group
    ]


def test_offsets_that_cannot_be_read_to_the_end_come_from_admin(
    secured: Any, applications: Any, committed: Any, deny: Any
) -> None:
    """The fleet job may not read later commits any more: older values would be lag."""
    topic, group = committed
    blocks = blocks_of(tasks_of(secured.sasl))
    applications(secured.plain).commit(group, {TopicPartition(topic, 0): 5})
    deny(ResourceType.TOPIC, OFFSETS_TOPIC, AclOperation.READ)

    newest = read_newest(secured.sasl, blocks)

    mine = [row for row in newest.commits.to_pylist() if row["group"] == group]
    assert [(5, FROM_ADMIN)] == [(row["committed"], row["source"]) for row in mine]
    assert any("read through the Admin API, without commit times" in w for w in newest.problems)


def test_the_fleet_job_reports_what_acls_may_hide(secured: Any, deny: Any) -> None:
    """If the offsets topic cannot be read, hidden groups and topics are problems."""
    groups_hidden = "groups: those that you may not describe are left out"
    deny(ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE)
    asked = ask_groups(secured.sasl)
    deny(ResourceType.TOPIC, "*", AclOperation.DESCRIBE)
    (task,) = tasks_of(secured.sasl)
    told = [row["problem"] for row in rows_of([task]) if "problem" in row]

    assert not asked.complete
    assert any(groups_hidden in problem for problem in asked.problems)
    assert any(groups_hidden in problem for problem in told)
    assert any("the ACL Describe on Topic:* is missing" in problem for problem in told)


def test_the_shortest_retention_of_all_brokers_counts(lost_broker: Any) -> None:
    """A group expires by the settings of its coordinator, which another broker does not tell."""
    with connected(lost_broker.cluster) as connection:
        left = read_expiry_settings(connection)

    assert (7 * 24 * 3600, 600) == (left.retention_s, left.check_interval_s)
    assert left._replace(retention_s=2 * 3600) == lost_broker.settings


def test_broker_that_is_down(lost_broker: Any) -> None:
    """Partitions without a leader and groups without a coordinator are named; the rest is whole."""
    before, here, gone = lost_broker.before, lost_broker.here, lost_broker.gone
    lost = {g.group_id for g in before.groups if g.coordinator_id == 2}
    left = {g.group_id for g in before.groups} - lost
    snapshot = read_snapshot(lost_broker.cluster)

    assert before.problems == ()
    assert lost
    assert left
    assert {group.group_id for group in snapshot.groups} == left
    assert set(snapshot.commits) == {c for c in before.commits if c.group_id in left}
    assert {here, gone} == {(commit.topic, commit.partition) for commit in snapshot.commits}
    assert snapshot.logs[here].log_end == 3
    assert [(p.what, p.topic, p.why) for p in snapshot.problems if p.topic == gone.topic] == [
        ("log offsets", gone.topic, "it has no leader")
    ]
    timed = read_snapshot(lost_broker.cluster, groups=sorted(left), commit_times=True)
    assert all(commit.committed_at for commit in timed.commits)
    assert not [p for p in timed.problems if p.what is Unread.COMMIT_TIMES]
    unseen = {p.partition for p in snapshot.problems if p.what == "groups"}
    assert {partition_of(group, 10) for group in lost} <= unseen
    assert not {partition_of(group, 10) for group in left} & unseen
