"""Answers to OffsetFetch in columns: what the client's own decoder finds in the same bytes."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import OffsetFetchResponse

from toolkit.kafka_io.wire.offset_fetch import OffsetFetchColumns

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


def as_columns(response: Any) -> list[Any]:
    """Return what the client decoded in the order of the columns."""
    return [
        (
            group.group_id,
            group.error_code,
            [
                (
                    topic.name,
                    [
                        (
                            p.partition_index,
                            p.committed_offset,
                            p.committed_leader_epoch,
                            p.metadata or "",
                            p.error_code,
                        )
                        for p in topic.partitions
                    ],
                )
                for topic in group.topics
            ],
        )
        for group in response.groups
    ]


@given(st.integers(0, 2**31 - 1), st.lists(GROUPS, max_size=3))
def test_columns_are_what_the_client_decodes(throttle_ms: int, groups: list[Any]) -> None:
    """Every field of every partition is the same, with and without metadata and errors."""
    answer = OffsetFetchResponse(version=8, throttle_time_ms=throttle_ms, groups=groups)
    data = answer.encode(version=8)
    found = OffsetFetchColumns.decode(io.BytesIO(data))

    assert throttle_ms == found.throttle_time_ms
    assert as_columns(OffsetFetchResponse.decode(data, version=8)) == [
        (
            group.group_id,
            group.error_code,
            [
                (
                    topic.name,
                    list(
                        zip(
                            topic.partitions,
                            topic.offsets,
                            topic.epochs,
                            topic.metadata or [""] * len(topic.offsets),
                            topic.error_codes,
                            strict=True,
                        )
                    ),
                )
                for topic in group.topics
            ],
        )
        for group in found.groups
    ]


def test_an_answer_that_ends_early_is_refused() -> None:
    """The client takes a ValueError for an answer that it cannot read."""
    whole = OffsetFetchResponse(
        version=8, throttle_time_ms=0, groups=[Group(group_id="g", topics=[], error_code=0)]
    ).encode(version=8)

    for size in range(len(whole)):
        with pytest.raises(ValueError, match="ends early"):
            OffsetFetchColumns.decode(io.BytesIO(whole[:size]))
