from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from offsets_records import (
    AT_MS,
    chunk_with,
    classic_value,
    commit_key,
    commit_value,
    log_of,
    mutated,
)

from toolkit.kafka_io.client.timestamps import LAST_MS
from toolkit.kafka_io.offsets_topic.commit_records import (
    CommitKey,
    CommitTime,
    CommitValue,
    commit_time,
    decode_commit_value,
)
from toolkit.kafka_io.offsets_topic.latest_records import empty_latest, latest_of
from toolkit.kafka_io.offsets_topic.latest_tables import COMMITS, decode_commits
from toolkit.kafka_io.wire.fields import MalformedMessage

AT = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
KEY = CommitKey("g", "t", 1)
OLDER, NEWER = commit_key(KEY, kind=0), commit_key(KEY, kind=1)


def value(offset: int, at_ms: int = AT_MS, *, version: int = 0) -> bytes:
    return commit_value(version, CommitValue(offset, 5, "m", at_ms, AT_MS + 1), bytes(range(16)))


def decoded(*records: tuple[bytes, bytes | None]) -> Any:
    """Return the commits of some records, and the reasons of malformed ones."""
    table, malformed = decode_commits(latest_of(chunk_with(log_of(*records))))
    assert table.schema.equals(COMMITS)
    return table.to_pylist(), dict(malformed)


def test_all_fields_of_a_commit() -> None:
    """A commit of the newest version is decoded with its series, its topic id and its epoch."""
    rows, malformed = decoded((NEWER, value(9, version=4)), (NEWER, value(7, version=4)))

    assert malformed == {}
    assert rows == [
        {
            "group": "g",
            "topic": "t",
            "partition": 1,
            "committed": 7,
            "leader_epoch": 5,
            "metadata": "m",
            "committed_at": AT,
            "expire_at": None,
            "topic_id": "AAECAwQFBgcICQoLDA0ODw",
            "record_offset": 1,
            "recent_at": [AT, AT],
            "recent_offset": [9, 7],
            "max_committed": 9,
            "max_committed_at": AT,
        }
    ]


@pytest.mark.parametrize(
    ("records", "committed"),
    [
        ([(OLDER, value(3)), (NEWER, value(4))], [4]),
        ([(NEWER, value(4)), (OLDER, value(3))], [3]),
        ([(OLDER, value(3)), (NEWER, None)], []),
        ([(NEWER, value(4)), (OLDER, None)], []),
        ([(OLDER, value(3)), (b"\0", None)], [3]),
    ],
)
def test_both_types_of_key_are_the_same_offset(records: Any, committed: list[int]) -> None:
    """Of one offset under the older and the newer type of key, the newest record counts."""
    rows, _ = decoded(*records)

    assert [row["committed"] for row in rows] == committed


@pytest.mark.parametrize("at_ms", [-1, LAST_MS + 1, 2**63 - 1])
def test_commit_times_without_a_calendar(at_ms: int) -> None:
    """A commit time that no calendar has is null, and the commit counts."""
    (row,), _ = decoded((NEWER, value(4, at_ms)))

    assert (row["committed"], row["committed_at"], row["max_committed_at"]) == (4, None, None)


def test_undecodable_records_are_counted() -> None:
    """Malformed keys and values are left out and counted by reason; others are skipped."""
    negative = commit_key(KEY._replace(partition=2))[:-4] + b"\xff" * 4
    rows, malformed = decoded(
        (NEWER, value(4)),
        (negative, value(4)),
        (b"\0\2\0\1g", classic_value(3)),
        (OLDER, b"\0\7"),
        (b"\0", value(4)),
    )

    assert [row["committed"] for row in rows] == []
    assert malformed == {
        "malformed offset commit key: a negative partition": 1,
        "offset commit value too new for its key": 1,
        "key too short": 1,
    }


def test_nothing_gives_nothing() -> None:
    """An empty table is decoded to an empty one."""
    table, malformed = decode_commits(empty_latest())

    assert (table.num_rows, table.schema, malformed) == (0, COMMITS, {})


INT64 = st.integers(0, 2**63 - 1)
EPOCHS, EXPIRIES = st.none() | st.integers(0, 2**31 - 1), st.none() | INT64
WRITTEN = st.builds(CommitValue, INT64, EPOCHS, st.sampled_from(["", "a note"]), INT64, EXPIRIES)
PLAIN = CommitValue(7, 5, "", 1_700_000_000_000)
IDS = st.none() | st.binary(min_size=16, max_size=16)
VALUES = st.builds(commit_value, st.integers(0, 4), WRITTEN, IDS)
DAMAGED = st.builds(lambda data, seed: mutated(data, Random(seed)), VALUES, INT64)  # noqa: S311


@given(VALUES | DAMAGED)
@example(commit_value(3, PLAIN))
@example(commit_value(4, PLAIN))
@example(commit_value(4, PLAIN, bytes(range(16))))
def test_time_as_the_whole_value_has_it(value: bytes) -> None:
    """A value of any shape, damaged or not, has the time that decoding all of it finds."""
    try:
        whole = decode_commit_value(value)
    except MalformedMessage:
        assert commit_time(value) is None
        return

    found = CommitTime(whole.offset, whole.commit_time_ms, whole.topic_id, whole.expire_time_ms)
    assert found == commit_time(value)
