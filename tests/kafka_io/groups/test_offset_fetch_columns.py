"""Answers to OffsetFetch in columns: what the client's own decoder finds in the same bytes."""

import io
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import OffsetFetchResponse

from toolkit.kafka_io.wire.fields import MalformedMessage
from toolkit.kafka_io.wire.offset_messages import OffsetFetchColumns

Group = OffsetFetchResponse.OffsetFetchResponseGroup
Topic = Group.OffsetFetchResponseTopics
Partition = Topic.OffsetFetchResponsePartitions

PARTITIONS = st.builds(
    Partition,
    partition_index=st.integers(0, 2**31 - 1),
    committed_offset=st.integers(-1, 2**63 - 1),
    committed_leader_epoch=st.integers(-1, 9),
    metadata=st.sampled_from(["", None]) | st.text(max_size=200),
    error_code=st.sampled_from([0, 0, 0, 88, -1]),
)
PLAIN = st.builds(
    Partition,
    partition_index=st.integers(0, 9),
    committed_offset=st.integers(0, 9),
    committed_leader_epoch=st.just(-1),
    metadata=st.just(""),
    error_code=st.just(0),
)
TOPICS = st.builds(
    Topic,
    name=st.text(max_size=9),
    partitions=st.lists(PARTITIONS | PLAIN, max_size=5) | st.lists(PLAIN),
)
GROUPS = st.builds(
    Group,
    group_id=st.text(max_size=200),
    topics=st.lists(TOPICS, max_size=3),
    error_code=st.sampled_from([0, 15, -1]),
)


def nested(groups: Any, rows_of: Callable[[Any], list[Any]]) -> list[Any]:
    """Return groups with their topics, and of each topic its rows."""
    return [
        (group.group_id, group.error_code, [(topic.name, rows_of(topic)) for topic in group.topics])
        for group in groups
    ]


def as_decoded(topic: Any) -> list[Any]:
    """Return the partitions of a topic as the client decodes them, in the order of the columns."""
    return [
        (
            *(p.partition_index, p.committed_offset, p.committed_leader_epoch),
            *(p.metadata or "", p.error_code),
        )
        for p in topic.partitions
    ]


def as_columns(topic: Any) -> list[Any]:
    """Return the partitions of a topic from its columns."""
    metadata = topic.metadata or [""] * len(topic.offsets)
    columns = topic.partitions, topic.offsets, topic.epochs, metadata, topic.error_codes
    return list(zip(*columns, strict=True))


@given(st.integers(0, 2**31 - 1), st.lists(GROUPS, max_size=3))
def test_columns_equal_what_the_client_decodes(throttle_ms: int, groups: list[Any]) -> None:
    """Every field of every partition is the same, with and without metadata and errors."""
    answer = OffsetFetchResponse(version=8, throttle_time_ms=throttle_ms, groups=groups)
    data = answer.encode(version=8)
    found = OffsetFetchColumns.decode(io.BytesIO(data))
    decoded = OffsetFetchResponse.decode(data, version=8)

    assert throttle_ms == found.throttle_time_ms
    assert nested(decoded.groups, as_decoded) == nested(found.groups, as_columns)


def test_an_answer_that_ends_early_is_refused() -> None:
    """The client takes a ValueError for an answer that it cannot read."""
    whole = OffsetFetchResponse(
        version=8, throttle_time_ms=0, groups=[Group(group_id="g", topics=[], error_code=0)]
    ).encode(version=8)

    for size in range(len(whole)):
        with pytest.raises(MalformedMessage, match=r"truncated|invalid length"):
            OffsetFetchColumns.decode(io.BytesIO(whole[:size]))
