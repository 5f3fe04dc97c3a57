"""Requests and answers of OffsetCommit as bytes: what the client's own codec writes and reads."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse

from toolkit.kafka_io.wire.offset_commit import CommitOfIdleGroup, OffsetCommitColumns
from toolkit.model import TopicPartition
from toolkit.plan import Position

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
    """Return the request as the client writes it."""
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
def test_request_is_what_the_client_writes(
    group_id: str, positions: dict[TopicPartition, Position]
) -> None:
    """Every byte is the same, header and length included."""
    request = CommitOfIdleGroup(group_id, positions)
    request.API_VERSION = 9
    request.with_header(correlation_id=7, client_id="offsetbook")

    assert by_client(group_id, positions) == request.encode(header=True, framed=True)


@given(st.lists(TOPICS, max_size=3, unique_by=lambda topic: topic.name))
def test_answer_is_what_the_client_reads(topics: list[Any]) -> None:
    """Every error code of every partition is the same."""
    data = OffsetCommitResponse(version=9, throttle_time_ms=5, topics=topics).encode(version=9)
    found = OffsetCommitColumns.decode(io.BytesIO(data))

    codes = [
        (t.name, [(p.partition_index, p.error_code) for p in t.partitions])
        for t in OffsetCommitResponse.decode(data, version=9).topics
    ]
    assert codes == [
        (t.name, list(zip(t.partitions, t.error_codes, strict=True))) for t in found.topics
    ]
    assert found.is_accepted == all(not code for _, rows in codes for _, code in rows)
    for size in range(0, len(data), 7):
        with pytest.raises(ValueError, match=r"ends early|codec can't decode"):
            OffsetCommitColumns.decode(io.BytesIO(data[:size]))
