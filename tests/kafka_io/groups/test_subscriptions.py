import json
import re
import struct
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from fleet_tasks import blocks_of, tasks_of
from hypothesis import given
from hypothesis import strategies as st
from offsets_records import plain

from toolkit.kafka_io.groups.hold_notes import LONGEST_TEXT, read_note, write_note
from toolkit.kafka_io.groups.subscriptions import (
    ExistingTopics,
    assignment_from_bytes,
    from_classic_metadata,
    from_names,
)
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.kafka_io.wire.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from toolkit.model import Cluster, HoldNote, Subscription, TopicPartition
from toolkit.sandbox.raw_members import RawConnection
from toolkit.spark.catch_up import read_newest

PREFIX = "re2"
TOPICS = (
    *("orders", "orders.eu", "orders.us", "orders.eu.dlq", "orders-2024", "Orders.EU"),
    *("invoices.draft", "payments_1", "payments_12", "payments_x", "axb"),
)
PATTERNS = (
    r"^re2\.orders",  # whole names only
    r"^re2\.orders\..*",
    r"^re2.orders$",  # an unescaped dot is any character
    r"^re2\.(orders\.(eu|us)|invoices\..+)$",
    r"^re2\.orders|re2\.axb",  # what of the alternation the anchor binds to
    r"^re2\.payments_\d",
    r"^re2\.payments_\d+",
    r"^re2\.payments_[^0-9]",
    r"^(?i)re2\.orders\.eu",
    r"^re2\.a.b",
    r"^re2\.payments_[[:digit:]]{2}",
    r"^re2\.\Qorders.eu\E.*",
    r"^re2\.payments_\pN",
    r"^re2\.nothing.*",
)
# Python's own patterns refuse these, or read them otherwise.
ONLY_RE2 = [p for p in PATTERNS if any(part in p for part in ("^(?i)", "[[:", r"\Q", r"\pN"))]


def resolved(cluster: Cluster, groups: Collection[str]) -> dict[str, frozenset[str]] | None:
    """Return what the broker resolved the patterns of groups to, once it did so for each."""
    rows = read_newest(cluster, blocks_of(tasks_of(cluster))).groups.to_pylist()
    found = {
        row["group"]: frozenset(row["subscribed"])
        for row in rows
        if row["members"] and not row["unreadable"]
    }
    return {group: found[group] for group in groups} if found.keys() >= set(groups) else None


def heartbeat(broker: RawConnection, group: str, pattern: str | None, *, epoch: int) -> None:
    """
    Join a KIP-848 group with a pattern (epoch 0), or leave it (-1).

    librdkafka refuses patterns that its own library does not know, so the request is made here.
    """
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="AAAAAAAAAAAAAAAAAAAAAQ",  # which a member chooses itself
        member_epoch=epoch,
        rebalance_timeout_ms=60_000,
        subscribed_topic_regex=pattern,
        topic_partitions=None if pattern is None else [],
    )
    answer = broker.ask(request, ConsumerGroupHeartbeatResponse, version=1)
    assert 0 == answer.error_code, (pattern, answer)


@pytest.mark.since("4.0")  # resolves patterns (KIP-848)
def test_patterns_match_the_same_topics_as_on_the_broker(apps: Any) -> None:
    """For each pattern of a member the topics are those that the broker resolved."""
    prefix = apps.name(PREFIX)
    names = sorted(apps.create_topic(f"{prefix}.{name}") for name in TOPICS)
    apps.commit(apps.name("first"), {TopicPartition(names[0], 0): 0})  # now a coordinator is up
    patterns = {apps.name("re2-group"): text.replace(PREFIX, prefix) for text in PATTERNS}
    with RawConnection(apps.address, client_id="test") as broker:
        for group, pattern in patterns.items():
            heartbeat(broker, group, pattern, epoch=0)
        by_broker = apps.eventually(lambda: resolved(apps.cluster, patterns))
        snapshot = read_snapshot(apps.cluster, groups=list(patterns))
        for group in patterns:
            heartbeat(broker, group, None, epoch=-1)

    assert snapshot.problems == ()
    assert by_broker == {group.group_id: group.subscribed_topics for group in snapshot.groups}
    assert [PATTERNS[-1].replace(PREFIX, prefix)] == [
        patterns[group] for group, found in by_broker.items() if not found
    ]


@pytest.mark.parametrize("pattern", ONLY_RE2)
def test_pattern_that_python_reads_otherwise(pattern: str) -> None:
    """A pattern that Python's own rules refuse or misread is resolved all the same."""
    topics = frozenset(f"{PREFIX}.{name}" for name in TOPICS)
    subscription = from_names([], pattern, lambda: ExistingTopics(topics))

    assert subscription.topics
    assert not subscription.unreadable
    with suppress(re.error, FutureWarning):
        assert {t for t in topics if re.fullmatch(pattern, t)} != subscription.topics


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", r"(?=a)", r"(a)\1", "[b-a]", r"\p{Nonsense}"])
def test_invalid_pattern_is_unreadable(pattern: str) -> None:
    """A pattern that RE2 rejects is unreadable; topic names beside it stay known."""
    subscription = from_names(["named"], pattern, lambda: ExistingTopics(frozenset({"a", "aa"})))

    assert subscription.topics == {"named"}
    assert subscription.pattern == pattern
    assert "is not valid RE2" in subscription.unreadable


def test_topics_are_asked_for_only_when_there_is_a_pattern() -> None:
    """Names alone need no list of all topics, which may be long."""
    assert from_names(["a"], None, pytest.fail) == Subscription(frozenset({"a"}))
    assert from_names(["a"], "", pytest.fail) == Subscription(frozenset({"a"}))


@given(st.integers(0, 3), st.lists(st.text(st.characters(codec="utf-8"), max_size=50)), st.binary())
def test_classic_metadata_is_read_up_to_its_topics(
    version: int, names: list[str], rest: bytes
) -> None:
    """Versions differ in what follows the topics, which is not looked at."""
    data = struct.pack(">hi", version, len(names)) + b"".join(map(plain, names)) + rest

    assert from_classic_metadata(data) == Subscription(frozenset(names))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\0\0\0\0",
        b"\0\0\xff\xff\xff\xff",  # a null array
        b"\0\0\x7f\xff\xff\xff",  # two billion topics
        b"\0\0\0\0\0\1\0\5abc",  # a topic that is cut
        b"\0\0\0\0\0\1\xff\xff",  # a null topic
        b"\0\0\0\0\0\1\0\1\xff",  # not UTF-8
    ],
    ids=repr,
)
def test_malformed_classic_metadata_is_unreadable(data: bytes) -> None:
    """Metadata that breaks off or lies about its length is unreadable, never empty."""
    assert from_classic_metadata(data).unreadable
    assert assignment_from_bytes(data) == ()


@given(st.binary(max_size=200))
def test_arbitrary_bytes_never_raise(data: bytes) -> None:
    """Whatever a member sent, it is parsed or reported as unreadable."""
    subscription = from_classic_metadata(data)

    assert not (subscription.unreadable and subscription.topics)
    assert all(isinstance(partition, TopicPartition) for partition in assignment_from_bytes(data))


def test_assignment_of_several_topics() -> None:
    """A classic assignment is read with all its topics and partitions, in order."""
    two = struct.pack(">iii", 2, 3, 1)
    data = b"\0\1" + struct.pack(">i", 2) + b"\0\1b" + two + b"\0\1a" + struct.pack(">ii", 1, 0)

    assert assignment_from_bytes(data) == (("a", 0), ("b", 1), ("b", 3))


NOW = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)
TEXTS = st.text(max_size=LONGEST_TEXT)
TIMES = st.none() | st.integers(10**11, 4 * 10**12).map(
    lambda milliseconds: datetime.fromtimestamp(milliseconds // 1000, UTC)
)
NOTES = st.builds(
    HoldNote,
    *(TEXTS, TEXTS, TIMES, TIMES, TEXTS),
    st.none() | st.floats(0.5, 1e6, allow_nan=False),
    TEXTS,
    st.just("") | st.integers(0).map(str),
)
PARTITIONS = st.frozensets(st.builds(TopicPartition, TEXTS, st.integers(0, 2**31 - 1)))


@given(NOTES, PARTITIONS)
def test_a_note_is_read_as_it_was_written(
    note: HoldNote, paused: frozenset[TopicPartition]
) -> None:
    """Every note and every set of partitions comes back."""
    read = read_note(write_note(note, paused))

    assert (note, tuple(sorted(paused))) == (read.note, tuple(sorted(read.paused)))


def test_holds_that_began_in_one_millisecond_are_two() -> None:
    """The run tells them apart, also where one operator began both on one host."""
    first = HoldNote(who="ann", host="desk", since=NOW, run_id="20261121T123000Z-1a2b3c4d")
    second = replace(first, run_id="20261121T123000Z-5e6f7a8b")

    assert read_note(write_note(first)).note.is_of_same_hold(first)
    assert not read_note(write_note(second)).note.is_of_same_hold(first)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "rack-7",
        "[]",
        "{",
        "[" * 100_000,
        b"\xff\x00",
        json.dumps({"who": 1, "since": "soon", "until": "2026-01-01", "survives_s": "45"}),
        json.dumps({"survives_s": True, "paused": {"orders": ["1", -1, True, None], "a": 3}}),
        json.dumps({"survives_s": 1e300, "paused": [], "own_delay": "3 s"}),
        json.dumps({"own_delay": 3000}),
    ],
)
def test_text_that_is_no_note_is_ignored(text: str | bytes | None) -> None:
    """Any client may write into that field: invalid entries are left out."""
    assert (HoldNote(), ()) == read_note(text)


def test_the_readable_part_of_a_note_is_kept() -> None:
    """A long text is cut, half a character replaced, and one bad field costs that field."""
    long = HoldNote(reason="x" * 10_000)
    assert "x" * LONGEST_TEXT == read_note(write_note(long)).note.reason

    read = read_note('{"who": "a\\ud800b", "paused": {"t\\udfff": [1]}}')
    assert ("a?b", (TopicPartition("t?", 1),)) == (read.note.who, read.paused)

    told = json.loads(write_note(HoldNote("ana", "desk-1", NOW), [TopicPartition("orders", 1)]))
    read = read_note(json.dumps(told | {"since": "?"}))
    assert (HoldNote("ana", "desk-1"), (TopicPartition("orders", 1),)) == (read.note, read.paused)
