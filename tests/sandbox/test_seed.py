"""Every seeded problem, read back from the broker with the admin clients of two libraries."""

from contextlib import closing
from pathlib import Path

import pytest
from applications import eventually
from clients import AdminClient
from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import OffsetSpec
from kafka.admin import KafkaAdminClient

from toolkit.model import Cluster, TopicPartition
from toolkit.planning.changes.targets import ShiftBy
from toolkit.sandbox.fleet import Sandbox
from toolkit.sandbox.seed import CUT_AT, GROUPS, LEFT_AT, OPEN_TRANSACTION, POISON, POISON_OFFSET
from toolkit.session import Session

Commits = dict[tuple[str, int], int]


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers})


def commits(admin: AdminClient, group: str) -> Commits:
    (answer,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {(p.topic, p.partition): p.offset for p in answer.result().topic_partitions}


def log_offset(admin: AdminClient, place: tuple[str, int], spec: OffsetSpec, **more: object) -> int:
    (answer,) = admin.list_offsets({Partition(*place): spec}, **more).values()
    return answer.result().offset


def subscribed(admin: AdminClient, group: str) -> set[str]:
    """Return the topics that a live group's members were assigned."""
    (answer,) = admin.describe_consumer_groups([group]).values()
    members = answer.result().members
    return {p.topic for member in members for p in member.assignment.topic_partitions}


def test_every_group_is_there_as_declared(cluster: Cluster) -> None:
    """The broker lists exactly the declared groups, each with its state, type and protocol."""
    # The other client lists consumer groups only.
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as kafka:
        listed = {group["group_id"]: group for group in kafka.list_groups()}

    assert {group.group_id: (group.state, group.type) for group in GROUPS} == {
        name: (group["group_state"], group["group_type"]) for name, group in listed.items()
    }
    assert listed["connect-warehouse"]["protocol_type"] == "connect"
    assert listed["ledger-reader"]["protocol_type"] == ""


def test_status_sees_every_problem(sandbox: Sandbox) -> None:
    """The sandbox's own check finds nothing missing while the applications run."""
    (status,) = sandbox.status()

    assert status.missing == {}
    assert status.applications_pid is not None


def test_pattern_group_reads_all_matching_topics(admin: AdminClient) -> None:
    """The broker resolved the pattern of search-indexer to both order topics."""
    both = {"orders.created", "orders.confirmed"}
    eventually(lambda: subscribed(admin, "search-indexer") == both)


@pytest.mark.parametrize(
    ("group", "topic"), [("billing", "invoices.draft"), ("billing-v2", "orders.confirmed")]
)
def test_leftover_lag_grows(admin: AdminClient, group: str, topic: str) -> None:
    """A live group keeps its old offsets of a topic it left, while the topic goes on growing."""
    end = log_offset(admin, (topic, 0), OffsetSpec.latest())

    # A busy machine may keep a member so long from its heartbeats that the group rebalances.
    eventually(lambda: subscribed(admin, group) == {"invoices.issued"})
    eventually(lambda: log_offset(admin, (topic, 0), OffsetSpec.latest()) > end)
    assert commits(admin, group)[topic, 0] == LEFT_AT


def test_poison_stops_one_partition_only(admin: AdminClient) -> None:
    """fraud-check stands at the poison record, and its other partitions move on."""
    before = commits(admin, "fraud-check")

    others = set(before) - {POISON}
    eventually(
        lambda: all(commits(admin, "fraud-check")[place] > before[place] for place in others)
    )
    assert commits(admin, "fraud-check")[POISON] == POISON_OFFSET


def test_slow_group_falls_behind(admin: AdminClient) -> None:
    """The reports group reads, yet its lag is larger later than before."""
    places = [("page.views", number) for number in range(2)]

    def read() -> int:
        return sum(commits(admin, "reports").get(place, 0) for place in places)

    def end() -> int:
        return sum(log_offset(admin, place, OffsetSpec.latest()) for place in places)

    # Not all at one moment: the lag before is at most this, and later it is at least that.
    read_before, end_before = read(), end()

    def falls_behind() -> bool:
        arrived = end() - end_before
        return 0 < read() - read_before < arrived

    eventually(falls_behind)


def test_archiver_points_before_the_log_start(admin: AdminClient) -> None:
    """The records that archiver would read next have been deleted."""
    committed = commits(admin, "archiver")

    assert set(committed.values()) == {LEFT_AT}
    starts = {log_offset(admin, place, OffsetSpec.earliest()) for place in committed}
    assert starts == {CUT_AT}


def test_open_transaction_holds_settlement_up(admin: AdminClient) -> None:
    """Settlement has read all it may: up to the last stable offset, which is before the end."""
    stable = log_offset(
        admin, OPEN_TRANSACTION, OffsetSpec.latest(), isolation_level=IsolationLevel.READ_COMMITTED
    )

    assert stable < log_offset(admin, OPEN_TRANSACTION, OffsetSpec.latest())
    assert commits(admin, "settlement")[OPEN_TRANSACTION] == stable


@pytest.mark.parametrize(
    "group", ["connect-warehouse", "order-totals", "payments", "ledger-reader"]
)
def test_groups_without_a_problem_keep_up(admin: AdminClient, group: str) -> None:
    """Members that are played with raw messages commit onwards; so does a group without any."""
    before = sum(commits(admin, group).values())

    if group == "ledger-reader":
        assert subscribed(admin, group) == set()
    eventually(lambda: sum(commits(admin, group).values()) > before)


def test_streams_group_reads_on_where_it_is_moved_to(
    admin: AdminClient, cluster: Cluster, tmp_path: Path
) -> None:
    """As instances of Kafka Streams do, it forgets its positions when it is evicted."""
    places = [TopicPartition("orders.created", number) for number in range(4)]
    eventually(lambda: all(at > 20 for at in commits(admin, "order-totals").values()))
    session = Session(cluster, tmp_path)
    (group,) = session.lag(["order-totals"]).facts.groups
    (owner,) = {member.assignment for member in group.members}
    assert tuple(places) == owner

    change = session.move("order-totals", to=ShiftBy(-10))
    done = change.decide(dry_run=False, approve=change.fingerprint, reason="a test").apply()

    assert done.is_done, done.outcome


def test_hostile_group_has_hostile_client_and_metadata(admin: AdminClient) -> None:
    """Not only the group's name but all that an application may choose is markup."""
    hostile = "<img src=x onerror=alert(1)>"
    (answer,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(hostile)]).values()
    (described,) = admin.describe_consumer_groups([hostile]).values()

    assert {p.metadata for p in answer.result().topic_partitions} == {"<b onclick=alert(3)>"}
    assert [m.client_id for m in described.result().members] == ['"><script>alert(2)</script>']
