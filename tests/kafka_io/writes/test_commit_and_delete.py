"""What a coordinator says to each request that changes a group, and what is there afterwards."""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
)
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer.transaction import EndTxnRequest

from toolkit.kafka_io.client.connection import AT_ONCE, Connection, Response, TaggedRequest
from toolkit.kafka_io.client.coordinators import find_coordinators
from toolkit.kafka_io.groups.commits import read_commits
from toolkit.kafka_io.groups.listing import list_groups
from toolkit.kafka_io.wire.fields import MalformedMessage
from toolkit.kafka_io.wire.messages import DeleteGroupsRequest, DeleteGroupsResponse
from toolkit.kafka_io.wire.offset_messages import (
    CommitOfIdleGroup,
    CommittedOffsets,
    OffsetCommitColumns,
)
from toolkit.kafka_io.writes.commit_and_delete import GroupWriter, WriteResult, _deletion
from toolkit.model import Cluster, TopicPartition
from toolkit.plan import Position

DONE = WriteResult()
# What Apache Kafka 4.4.0 answered when a plugin for topology descriptions failed, encoded anew.
NOT_DELETED = (
    b"\x00\x00\x00\x00\x02\x05strj\x00\x86"
    b":Topology description plugin failed to delete the topology\x00\x00"
)


@pytest.fixture
def connection(bare_cluster: Cluster) -> Iterator[Connection]:
    with Connection(bare_cluster) as opened:
        yield opened


@pytest.fixture
def group(unique_name: Callable[[str], str]) -> str:
    return unique_name("payments")


def committed(connection: Connection, group_id: str) -> dict[TopicPartition, Position]:
    commits, problems = read_commits(connection, [group_id])
    assert not problems
    return {TopicPartition(c.topic, c.partition): Position.of(c) for c in commits}


def test_offset_epoch_and_metadata_arrive(connection: Connection, apps: Any, group: str) -> None:
    """A commit makes a group that does not exist; more than one batch of it arrives whole."""
    topic = apps.create_topic(apps.name("orders"), partitions=300, records=5)
    few = {
        TopicPartition(topic, 0): Position(3, 0, "a note"),
        TopicPartition(topic, 1): Position(5),
    }
    large = {TopicPartition(topic, n): Position(0, None, "x" * 4000) for n in range(300)}

    for wanted in (few, large):
        assert DONE == GroupWriter(connection).commit(group, wanted)
        assert wanted == committed(connection, group)


def test_groups_committed_together_are_answered_each_by_itself(
    connection: Connection, apps: Any
) -> None:
    """Each group has its own result; what takes several requests, or a look-up, is left out."""
    topic = apps.create_topic(apps.name("orders"), partitions=300)
    first = TopicPartition(topic, 0)
    done, live, partly, large, unknown = (apps.name("payments") for _ in range(5))
    apps.join(live, [topic], protocol="consumer")
    find_coordinators(connection, [done, live, partly, large])

    answers = GroupWriter(connection).commit_together(
        {
            done: {first: Position(0, 0, "a note")},
            live: {first: Position(0)},
            partly: {first: Position(0), TopicPartition(topic, 1): Position(0, None, "x" * 5000)},
            large: {TopicPartition(topic, n): Position(0, None, "x" * 4000) for n in range(300)},
            unknown: {first: Position(0)},
        }
    )

    assert {done, live, partly} == answers.keys()
    assert DONE == answers[done]
    assert "the group has members" in answers[live].error
    assert [TopicPartition(topic, 1)] == list(answers[partly].partitions)
    assert {first: Position(0, 0, "a note")} == committed(connection, done)
    assert {first: Position(0)} == committed(connection, partly)
    assert {} == committed(connection, large)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_live_group_refuses(protocol: str, connection: Connection, apps: Any, group: str) -> None:
    """Commits and deletion of a live group are refused for the group, in words."""
    topic = apps.create_topic(apps.name("orders"))
    apps.join(group, [topic], protocol=protocol)
    writer = GroupWriter(connection)

    refused = writer.commit(group, {TopicPartition(topic, 0): Position(0)})

    assert "the group has members" in refused.error
    assert "code 25" in refused.error
    assert "code 68" in writer.delete_group(group).error


class Doubtful(Connection):
    """A connection on which the first answers to a request carry other error codes, in turn."""

    def __init__(self, cluster: Cluster, kind: type, *codes: int) -> None:
        """Put `codes` into the answers to requests of a kind; the last goes on for ever."""
        super().__init__(cluster)
        self._kind, self._codes = kind, [*codes]
        self.sent = 0

    def send(self, request: Any, *, to: int | None = None) -> Any:
        answer = super().send(request, to=to)
        return self._changed(answer) if isinstance(request, self._kind) else answer

    def send_each(
        self, asks: Mapping[int, Iterable[TaggedRequest]], *, at_once: int = AT_ONCE
    ) -> Iterator[Response]:
        for one in super().send_each(asks, at_once=at_once):
            changes = self._kind is CommitOfIdleGroup
            yield one._replace(response=self._changed(one.response)) if changes else one

    def _changed(self, answer: Any) -> Any:
        self.sent += 1
        code = self._codes.pop(0) if len(self._codes) > 1 else self._codes[0]
        if code == AS_IT_IS:
            return answer
        if isinstance(answer, CommittedOffsets):
            topics = [
                t._replace(error_codes=[found or code for found in t.error_codes])
                for t in answer.topics
            ]
            return CommittedOffsets(0, topics)
        for row in getattr(answer, "results", [answer]):
            row.error_code = code
        return answer


AS_IT_IS = 12345


class Doubt(NamedTuple):
    """The codes of the answers to a request, one after the other, and what follows from them."""

    kind: type
    codes: tuple[int, ...]
    is_repeated: bool
    is_lost: bool


DOUBTS = [
    Doubt(CommitOfIdleGroup, (7,), is_repeated=True, is_lost=True),
    Doubt(CommitOfIdleGroup, (15,), is_repeated=True, is_lost=True),
    Doubt(CommitOfIdleGroup, (16,), is_repeated=True, is_lost=True),
    Doubt(CommitOfIdleGroup, (-1,), is_repeated=False, is_lost=True),
    Doubt(CommitOfIdleGroup, (13,), is_repeated=False, is_lost=True),
    Doubt(CommitOfIdleGroup, (20,), is_repeated=False, is_lost=True),
    Doubt(CommitOfIdleGroup, (15, 30), is_repeated=True, is_lost=True),
    Doubt(CommitOfIdleGroup, (14, 30), is_repeated=True, is_lost=False),
    Doubt(CommitOfIdleGroup, (30,), is_repeated=False, is_lost=False),
    Doubt(CommitOfIdleGroup, (7, AS_IT_IS), is_repeated=True, is_lost=False),
    Doubt(OffsetDeleteRequest, (15,), is_repeated=True, is_lost=True),
    Doubt(OffsetDeleteRequest, (15, 69), is_repeated=True, is_lost=True),
    Doubt(OffsetDeleteRequest, (69,), is_repeated=False, is_lost=False),
    Doubt(DeleteGroupsRequest, (7,), is_repeated=True, is_lost=True),
    Doubt(DeleteGroupsRequest, (68,), is_repeated=False, is_lost=False),
    Doubt(EndTxnRequest, (15,), is_repeated=True, is_lost=True),
    Doubt(EndTxnRequest, (15, 90), is_repeated=True, is_lost=True),
    Doubt(EndTxnRequest, (90,), is_repeated=False, is_lost=False),
]


def writes(writer: GroupWriter, group: str, place: TopicPartition) -> dict[type, Any]:
    """Return how a writer sends each kind of request about a group."""
    return {
        CommitOfIdleGroup: lambda: writer.commit(group, {place: Position(1)}),
        OffsetDeleteRequest: lambda: writer.delete_offsets(group, [place]),
        DeleteGroupsRequest: lambda: writer.delete_group(group),
        EndTxnRequest: lambda: writer.move(group, {place: Position(2)}),
    }


@pytest.mark.parametrize("doubt", DOUBTS, ids=lambda one: f"{one.kind.__name__}{one.codes}")
def test_an_error_after_which_a_request_may_take_effect(
    doubt: Doubt, bare_cluster: Cluster, apps: Any, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not called refused: here it was carried out, though the coordinator had an error."""
    place = TopicPartition(apps.create_topic(apps.name("orders")), 0)
    apps.commit(group, {place: 0})
    for module in ("commit_and_delete", "transactional_commit"):
        monkeypatch.setattr(f"toolkit.kafka_io.writes.{module}.RETRY_FOR_S", 0.3)

    with Doubtful(bare_cluster, doubt.kind, *doubt.codes) as connection:
        result = writes(GroupWriter(connection), group, place)[doubt.kind]()

    assert doubt.is_lost == result.is_lost
    assert doubt.is_lost == ("may still take effect" in result.error)
    assert (AS_IT_IS in doubt.codes) == (result == DONE)
    assert doubt.is_repeated == (connection.sent > 1)


@pytest.mark.parametrize("codes", [(7, 30), (15, 30), (20,)])
def test_doubts_about_groups_committed_together(
    codes: tuple[int, ...], bare_cluster: Cluster, apps: Any, group: str
) -> None:
    """The doubt stays if the group is tried again by itself, and is refused then."""
    place = TopicPartition(apps.create_topic(apps.name("orders")), 0)
    with Doubtful(bare_cluster, CommitOfIdleGroup, *codes) as doubtful:
        writer = GroupWriter(doubtful)
        find_coordinators(doubtful, [group])
        answers = writer.commit_together({group: {place: Position(1)}})
        result = answers.get(group) or writer.commit(group, {place: Position(1)})

    assert result.is_lost
    assert len(codes) == doubtful.sent


@pytest.mark.parametrize("code", [7, 14, 16])
def test_an_error_beside_a_partition_that_is_refused(
    code: int, bare_cluster: Cluster, apps: Any, group: str
) -> None:
    """Retriable errors are retried, whatever else brokers refuse."""
    place, gone = TopicPartition(apps.create_topic(apps.name("orders")), 0), TopicPartition("no", 0)
    positions = {gone: Position(1), place: Position(1)}
    with Doubtful(bare_cluster, CommitOfIdleGroup, code, AS_IT_IS) as connection:
        alone = GroupWriter(connection).commit(group, positions)
    with Doubtful(bare_cluster, CommitOfIdleGroup, code, AS_IT_IS) as connection:
        find_coordinators(connection, [group])
        together = GroupWriter(connection).commit_together({group: positions})

    assert [gone] == [*alone.partitions]
    assert {} == together


def test_a_coordinator_that_may_not_be_looked_up(secured: Any, deny: Any, group: str) -> None:
    """The missing ACL is named, and the coordinator is looked up once."""
    deny(ResourceType.GROUP, group, AclOperation.DESCRIBE)
    with Doubtful(secured.sasl, FindCoordinatorRequest, AS_IT_IS) as connection:
        result = GroupWriter(connection).commit(group, {TopicPartition("orders", 0): Position(1)})

    assert "its coordinator was not found: the ACL Describe on the group" in result.error
    assert (1, False) == (connection.sent, result.is_lost)


def test_the_reason_of_a_broker_is_shown() -> None:
    """A broker that says why it did not delete a group (4.4) is quoted, with the error's name."""
    answer = DeleteGroupsResponse.decode(NOT_DELETED, version=3)

    assert (
        "Topology description plugin failed to delete the topology "
        "(GROUP_DELETION_FAILED, code 134)"
    ) == _deletion(answer).error


def test_an_idle_group_is_deleted(connection: Connection, apps: Any, group: str) -> None:
    """It is listed no more; that it does not exist is the group's own error, not a partition's."""
    topic = apps.create_topic(apps.name("orders"))
    apps.commit(group, {TopicPartition(topic, 0): 0})
    writer = GroupWriter(connection)

    assert DONE == writer.delete_group(group)
    assert group not in [g.group_id for g in list_groups(connection)[0]]
    assert "code 69" in writer.delete_group(group).error
    assert "code 69" in writer.delete_offsets(group, [TopicPartition("none", 0)]).error


Asked = OffsetCommitRequest.OffsetCommitRequestTopic
AskedPartition = Asked.OffsetCommitRequestPartition
Answered = OffsetCommitResponse.OffsetCommitResponseTopic
AnsweredPartition = Answered.OffsetCommitResponsePartition

TEXTS = st.sampled_from(["", "topic-a"]) | st.text(max_size=200)
NUMBERS = st.integers(0, 2**31 - 1)
PLACES = st.builds(TopicPartition, TEXTS, NUMBERS)
POSITIONS = st.builds(Position, st.integers(0, 2**63 - 1), st.none() | NUMBERS, TEXTS)
CODES = st.builds(
    AnsweredPartition, partition_index=NUMBERS, error_code=st.sampled_from([0, 16, -1])
)
TOPICS = st.builds(Answered, name=TEXTS, partitions=st.lists(CODES, max_size=200))


def by_client(group_id: str, positions: dict[TopicPartition, Position]) -> bytes:
    topics: dict[str, list[Any]] = {}
    for (topic, number), position in positions.items():
        row = AskedPartition(
            partition_index=number,
            committed_offset=position.offset,
            committed_leader_epoch=-1 if position.leader_epoch is None else position.leader_epoch,
            committed_metadata=position.metadata,
        )
        topics.setdefault(topic, []).append(row)
    whole = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[Asked(name=name, partitions=rows) for name, rows in topics.items()],
    )
    whole.API_VERSION = 9
    whole.with_header(correlation_id=7, client_id="offsetbook")
    return bytes(whole.encode(header=True, framed=True))


@given(TEXTS, st.dictionaries(PLACES, POSITIONS, max_size=150))
def test_a_request_equals_that_of_the_client(
    group_id: str, positions: dict[TopicPartition, Position]
) -> None:
    """Every byte is the same, header and length included."""
    request = CommitOfIdleGroup(group_id, positions)
    request.API_VERSION = 9
    request.with_header(correlation_id=7, client_id="offsetbook")

    assert by_client(group_id, positions) == request.encode(header=True, framed=True)


@given(st.lists(TOPICS, max_size=3, unique_by=lambda topic: topic.name))
def test_a_response_is_read_as_by_the_client(topics: list[Any]) -> None:
    """Every error code of every partition, and the throttle time."""
    data = OffsetCommitResponse(version=9, throttle_time_ms=5, topics=topics).encode(version=9)
    found = OffsetCommitColumns.decode(io.BytesIO(data))

    codes = [
        (t.name, [(p.partition_index, p.error_code) for p in t.partitions])
        for t in OffsetCommitResponse.decode(data, version=9).topics
    ]
    assert codes == [
        (t.name, list(zip(t.partitions, t.error_codes, strict=True))) for t in found.topics
    ]
    assert 5 == found.throttle_time_ms
    assert found.is_accepted == all(not code for _, rows in codes for _, code in rows)
    for size in range(0, len(data), 7):
        with pytest.raises(MalformedMessage, match=r"truncated|invalid length"):
            OffsetCommitColumns.decode(io.BytesIO(data[:size]))
