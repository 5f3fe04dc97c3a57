from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from applications import eventually
from fleet_tasks import rows_of, tasks_of
from idle_groups import idle_group
from since import needs

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.groups import describe_groups
from toolkit.kafka_io.groups.describe_groups import read_paused
from toolkit.kafka_io.groups.listing import list_groups
from toolkit.kafka_io.logs.log_offsets import read_log_offsets
from toolkit.kafka_io.logs.record_times import read_first_records
from toolkit.kafka_io.logs.records_around import read_records_around
from toolkit.kafka_io.offsets_topic.partitions import offsets_partitions
from toolkit.kafka_io.read_snapshot import Progress, read_snapshot, select_groups
from toolkit.kafka_io.writes.commit_and_delete import GroupWriter, WriteResult
from toolkit.model import (
    Cluster,
    Group,
    GroupState,
    GroupType,
    Policy,
    Problem,
    Snapshot,
    TopicPartition,
    Unread,
)
from toolkit.model.names import ExactName
from toolkit.plan import Position
from toolkit.sandbox.fleet import Sandbox
from toolkit.sandbox.jars import VERSION
from toolkit.sandbox.seed import (
    CUT_AT,
    LEFT_AT,
    OPEN_TRANSACTION,
    TOPICS,
    Behaviour,
    SeededGroup,
    seeded_groups,
)

GROUPS = seeded_groups(VERSION)

BY_ID = {group.group_id: group for group in GROUPS}
SUBSCRIBED = [
    g for g in GROUPS if g.state is GroupState.STABLE and g.group_id != "connect-warehouse"
]


def speaking_their_protocol(groups: Iterable[SeededGroup]) -> list[Any]:
    """Return groups as parameters; a KIP-848 group is a classic one on brokers before 4.0."""
    marks = {GroupType.CONSUMER: [pytest.mark.since("4.0")]}
    return [pytest.param(g, id=g.group_id, marks=marks.get(g.type, [])) for g in groups]


@pytest.fixture(scope="module")
def snapshot(cluster: Cluster) -> Any:
    return read_snapshot(cluster, commit_times=True)


def group_of(snapshot: Snapshot, group_id: str) -> Any:
    return next(group for group in snapshot.groups if group.group_id == group_id)


def committed_by(snapshot: Snapshot, group_id: str) -> Any:
    return {
        TopicPartition(commit.topic, commit.partition): commit.offset
        for commit in snapshot.commits
        if commit.group_id == group_id
    }


def partitions_of(topics: Any) -> Any:
    return {
        TopicPartition(topic.name, number)
        for topic in TOPICS
        if topic.name in topics
        for number in range(topic.partitions)
    }


def test_every_seeded_group_and_no_problem(snapshot: Snapshot) -> None:
    """A snapshot has each group once, sorted, and a healthy cluster gives no problems."""
    assert sorted(BY_ID) == [group.group_id for group in snapshot.groups]
    assert snapshot.problems == ()
    assert snapshot.cluster == "eu"
    assert snapshot.cluster_id


@pytest.mark.parametrize("seeded", speaking_their_protocol(GROUPS))
def test_type_state_and_commits(snapshot: Snapshot, seeded: SeededGroup) -> None:
    """Each group has the type and state that its members give it, and what it committed."""
    group, committed = (find(snapshot, seeded.group_id) for find in (group_of, committed_by))
    type_ = GroupType.SIMPLE if seeded.behaviour is Behaviour.ASSIGNS else seeded.type

    assert (type_, seeded.state, True, 1 if group.is_live else 0, 1) == (
        *(group.type, group.state, group.described),
        *(len(group.members), group.coordinator_id),
    )
    # The slow one may not have come to each of its partitions yet.
    assert {partition.topic for partition in committed} == set(seeded.committed_topics)
    assert set(committed) <= partitions_of(seeded.committed_topics)
    assert all(committed[p] == LEFT_AT for p in partitions_of(seeded.left))


@pytest.mark.parametrize("seeded", speaking_their_protocol(SUBSCRIBED))
def test_subscription(snapshot: Snapshot, seeded: SeededGroup) -> None:
    """What a live group subscribes to is what its application asked for; its member owns all."""
    group = group_of(snapshot, seeded.group_id)
    (member,) = group.members

    assert (set(seeded.reads), "") == (group.subscribed_topics, group.unreadable_subscription)
    # librdkafka sends its patterns joined by "|", each in parentheses.
    assert member.subscription.pattern == (f"({seeded.pattern})" if seeded.pattern else None)
    assert set(member.assignment) == partitions_of(seeded.reads)


@pytest.mark.since("4.4")
def test_assignor_of_a_streams_group(snapshot: Snapshot) -> None:
    """Brokers report which assignor spreads the tasks of a streams group."""
    assert group_of(snapshot, "order-totals").assignor == "sticky"


def test_subscription_of_connect_is_unreadable(snapshot: Snapshot) -> None:
    """The subscription of a Connect worker is reported as unreadable, with the reason."""
    group = group_of(snapshot, "connect-warehouse")

    assert group.protocol_type == "connect"
    assert "protocol type is 'connect'" in group.unreadable_subscription
    assert group.subscribed_topics == frozenset()


def test_commits_have_times_and_metadata(snapshot: Snapshot, sandbox: Sandbox) -> None:
    """A commit carries the moment it was made, in UTC, and its metadata as it is, markup too."""
    times = [c.committed_at for c in snapshot.commits if c.group_id == "nightly-export"]
    before_start = (sandbox.state_dir / "eu" / "server.properties").stat().st_mtime

    assert times
    assert all(
        datetime.fromtimestamp(before_start, UTC) < time <= datetime.now(UTC) for time in times
    )
    # Its client ends stored metadata with a NUL, which is then part of it.
    assert {"<b onclick=alert(3)>\0"} == {
        c.metadata for c in snapshot.commits if c.group_id.startswith("<img")
    }


def test_where_commits_lie_in_their_logs(snapshot: Snapshot) -> None:
    """Never beyond the end, which is read after them; before the start where records are gone."""
    for commit in snapshot.commits:
        log = snapshot.logs[TopicPartition(commit.topic, commit.partition)]
        assert commit.offset <= log.log_end
    for partition, offset in committed_by(snapshot, "archiver").items():
        assert offset < snapshot.logs[partition].log_start == CUT_AT


def test_open_transaction_holds_last_stable_offset_back(
    snapshot: Snapshot, cluster: Cluster
) -> None:
    """An open transaction shows as a last stable offset below the log end, there and only there."""
    with Connection(cluster) as connection:
        later, _ = read_log_offsets(connection, snapshot.logs)

    # Both ends of a log cannot be read at once, and producers go on.
    assert {OPEN_TRANSACTION} == {
        p for p, log in snapshot.logs.items() if later[p].last_stable < log.log_end
    }
    held = snapshot.logs[OPEN_TRANSACTION]
    assert held.last_stable < held.log_end


@pytest.mark.parametrize("name", ["<img src=x onerror=alert(1)>", "café reports 東京", "payments"])
def test_selection_by_name(cluster: Cluster, name: str) -> None:
    """One group is read by its name, however hostile, and nothing of the others comes along."""

    def with_every_commit() -> Snapshot | None:
        found = read_snapshot(cluster, groups=[name])
        wanted = partitions_of(BY_ID[name].committed_topics)
        return found if wanted == set(committed_by(found, name)) else None

    snapshot = eventually(with_every_commit)

    assert [group.group_id for group in snapshot.groups] == [name]
    assert {commit.group_id for commit in snapshot.commits} == {name}
    assert set(snapshot.logs) == set(committed_by(snapshot, name))
    assert snapshot.problems == ()


def test_selection_by_pattern(cluster: Cluster) -> None:
    """A pattern selects what it matches, a name beside it its own; what is missing is a problem."""
    wanted = ["billing*", "reports", "no-such-group", "zzz*"]
    snapshot = read_snapshot(cluster, groups=wanted)

    assert [group.group_id for group in snapshot.groups] == ["billing", "billing-v2", "reports"]
    missing = [("group", "no-such-group"), ("group", "zzz*")]
    assert [(p.what, p.group_id) for p in snapshot.problems] == missing


def test_a_name_that_a_group_has_is_no_pattern() -> None:
    """It means that group alone; any other name is a pattern, in which `[*]` is a `*`."""
    names = ("*", "a*", "ab", "svc1", "svc[1]")
    listed = [Group(name, GroupType.CLASSIC, GroupState.EMPTY) for name in names]

    def chosen(*wanted: str) -> list[str]:
        return [group.group_id for group in select_groups(listed, wanted)[0]]

    assert ["*"] == chosen("*")
    assert ["a*"] == chosen("a*")
    assert ["svc[1]"] == chosen("svc[1]")
    assert ["svc1", "svc[1]"] == chosen("svc*")
    assert ["a*"] == chosen("a[*]")
    assert [*names] == chosen("**")
    assert ([], ["c*"]) == select_groups(listed, ["c*"])


def test_progress_ends_complete(cluster: Cluster) -> None:
    """Progress never runs backwards within a step or beyond its total."""
    seen = []

    read_snapshot(cluster, on_progress=seen.append)

    steps = list(dict.fromkeys(progress.step for progress in seen))
    assert steps == ["groups", "committed offsets", "members", "log offsets"]
    for step in steps:
        done = [progress.done for progress in seen if progress.step == step]
        assert done == sorted(done)
    assert all(progress.done <= progress.total for progress in seen)
    commits = [progress for progress in seen if progress.step == "committed offsets"]
    assert commits[-1].done == commits[-1].total == len(GROUPS)


def test_pending_commit_shows_the_value_that_still_holds(exclusive_apps: Any) -> None:
    """A commit that an open transaction is about to change is marked, with its old value."""
    apps = exclusive_apps
    group, (first, _) = idle_group(apps, 3, 3)
    producer = apps.pending(group, 7, first)
    try:
        snapshot = read_snapshot(apps.cluster, groups=[group])
    finally:
        producer.abort_transaction()

    rows = {commit.partition: (commit.offset, commit.pending) for commit in snapshot.commits}
    assert rows == {0: (3, True), 1: (3, False)}
    assert snapshot.problems == ()
    assert eventually(
        lambda: not any(c.pending for c in read_snapshot(apps.cluster, groups=[group]).commits)
    )


def test_reading_changes_nothing(exclusive_apps: Any) -> Any:
    """After snapshots and reading records the groups are the same; their topic has no more."""
    apps = exclusive_apps
    _, (place,) = idle_group(apps, 2)

    def state() -> Any:
        with Connection(apps.cluster) as connection:
            return list_groups(connection), offsets_partitions(connection)

    before = state()
    first = read_snapshot(apps.cluster, commit_times=True)
    second = read_snapshot(apps.cluster, commit_times=True)
    assert read_records_around(apps.cluster, {place: 3}).records
    assert read_first_records(apps.cluster, [(place, 1)])

    assert before[0][0]
    assert before[1]
    assert before == state()
    assert first.commits == second.commits


def test_oldest_supported_kafka(kafka_39: Cluster, applications: Any) -> None:
    """Classic and simple groups of Kafka 3.9 are read like those of the newest."""
    apps = applications(kafka_39)
    topic = apps.create_topic(apps.name("old"), partitions=2, records=4)
    live, simple = apps.name("live"), apps.name("simple")
    apps.commit(simple, {TopicPartition(topic, 1): 3})
    consumer = apps.join(live, [topic])
    consumer.commit(offsets=[apps.position(TopicPartition(topic, 0), 1)], asynchronous=False)

    snapshot = read_snapshot(kafka_39, groups=[live, simple], commit_times=True)

    assert snapshot.problems == ()
    assert group_of(snapshot, live).type is GroupType.CLASSIC
    assert group_of(snapshot, live).subscribed_topics == {topic}
    assert group_of(snapshot, simple).type is GroupType.SIMPLE
    assert committed_by(snapshot, live) == {TopicPartition(topic, 0): 1}
    assert committed_by(snapshot, simple) == {TopicPartition(topic, 1): 3}
    assert all(commit.committed_at for commit in snapshot.commits)
    assert {log.log_end for log in snapshot.logs.values()} == {4}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_that_ends_meanwhile(apps: Any, bare_cluster: Cluster, protocol: str) -> None:
    """It is left out where a pattern matched it; it is missing only where its name was given."""
    topic = apps.create_topic(apps.name("orders"), records=3)
    kept, stem = apps.name("kept"), apps.name("short")

    def read(*names: str) -> Snapshot:
        """Read groups of which one ends after it was listed."""
        group = f"{stem}-{len(names)}"
        consumer = apps.consumer(group, **{"group.protocol": protocol})
        consumer.subscribe([topic])
        eventually(lambda: consumer.poll(0.1) or consumer.assignment())
        apps.commit(kept, {TopicPartition(topic, 0): 1})

        def end(progress: Progress) -> None:
            if progress.step == "committed offsets" and progress.done == 1:
                consumer.close()
                deleted = apps.admin.delete_consumer_groups
                eventually(lambda: deleted([group])[group].exception() is None)

        return read_snapshot(bare_cluster, groups=[kept, *names], on_progress=end)

    by_pattern, by_name = read(f"{stem}*"), read(f"{stem}*", f"{stem}-2")

    assert [kept] == [group.group_id for group in by_pattern.groups]
    assert () == by_pattern.problems
    assert [kept] == [group.group_id for group in by_name.groups]
    assert [(Unread.GROUP, f"{stem}-2")] == [(p.what, p.group_id) for p in by_name.problems]


@pytest.mark.parametrize("offset", [-1, -1001])
def test_a_negative_offset_is_none(apps: Any, bare_cluster: Cluster, offset: int) -> None:
    """Brokers store it; it is no committed offset and no problem, also after one that was."""
    topic = apps.create_topic(apps.name("orders"), partitions=3, records=3)
    group, places = apps.name("pay"), [TopicPartition(topic, number) for number in range(3)]
    with Connection(bare_cluster) as connection:
        writer = GroupWriter(connection)
        writer.commit(group, dict.fromkeys(places[:2], Position(2)))
        answer = writer.commit(group, {places[1]: Position(offset), places[2]: Position(offset)})
    assert WriteResult() == answer

    found = read_snapshot(bare_cluster, groups=[group], commit_times=True)
    rows = rows_of(tasks_of(bare_cluster))

    assert [(topic, 0, 2)] == [(c.topic, c.partition, c.offset) for c in found.commits]
    assert () == found.problems
    ours = [(r["topic"], r["partition"], r["committed"]) for r in rows if r.get("group") == group]
    assert [(topic, 0, 2)] == ours
    assert [] == [row for row in rows if "malformed" in row.get("problem", "")]


def test_ignored_groups(apps: Any, bare_cluster: Cluster) -> None:
    """They are left out and counted unless they are named; in the fleet job, too."""
    topic, stem = apps.create_topic(apps.name("orders"), records=3), apps.name("pay")
    kept, left_out = f"{stem}-kept", f"{stem}-[hidden]"
    for group in (kept, left_out):
        apps.commit(group, {TopicPartition(topic, 0): 1})
    policy = Policy(ignored_groups=(left_out, "nobody*"))
    cluster = replace(bare_cluster, policy=policy)

    def names(*given: str) -> tuple[list[str], int]:
        found = read_snapshot(cluster, groups=given)
        assert () == found.problems
        return [group.group_id for group in found.groups], found.ignored

    assert ([kept], 1) == names(f"{stem}*")
    assert ([left_out], 0) == names(left_out)
    assert ([left_out], 0) == names(ExactName(left_out))
    assert {kept} == {
        row["group"] for row in rows_of(tasks_of(cluster)) if row.get("topic") == topic
    }


def test_suggestions_for_a_few_missing_names(apps: Any, bare_cluster: Cluster) -> None:
    """Many missing names, as for a restore of deleted groups, get none."""
    group = apps.name("billing-nightly")
    apps.commit(group, {TopicPartition(apps.create_topic(apps.name("orders")), 0): 0})
    misspelt = group.replace("nightly", "nihgtly")
    one = read_snapshot(bare_cluster, groups=[misspelt])
    many = read_snapshot(bare_cluster, groups=[f"{misspelt}-{number}" for number in range(6)])

    assert f"no group matches this name; did you mean {group}?" == one.why_missing(misspelt)
    assert "no group matches this name" == many.why_missing(misspelt)
    assert (6, True) == (len(many.problems), group in many.listed)


def test_holds_of_an_ended_group_are_unknown(bare_cluster: Cluster) -> None:
    """It may be of another type by now; that nothing shows is no proof of a release."""
    needs("4.0")
    gone = Group("nobody", GroupType.CONSUMER, GroupState.STABLE)
    with Connection(bare_cluster) as connection:
        told = read_paused(connection, gone)

    assert isinstance(told, Problem)
    assert ("members", "the group has ended") == (told.what, told.why)


@pytest.mark.parametrize("is_listed", [True, False], ids=["all listed", "a silent broker"])
def test_a_group_has_ended_only_where_all_are_listed(
    *, bare_cluster: Cluster, monkeypatch: pytest.MonkeyPatch, is_listed: bool
) -> None:
    """Else its coordinator may be the one that is silent: it stays, and nothing is known of it."""
    silent = [] if is_listed else [Problem(Unread.GROUPS, "broker 2 did not answer")]
    monkeypatch.setattr(describe_groups, "list_groups", lambda _: ([], silent))
    dead = Group("gone", GroupType.CONSUMER, GroupState.DEAD, described=True)

    with Connection(bare_cluster) as connection:
        remaining, ended = describe_groups.without_ended(connection, [dead])

    unknown = [] if is_listed else [replace(dead, state=GroupState.UNKNOWN, described=False)]
    assert (unknown, {"gone"} if is_listed else set()) == (remaining, ended)
