"""Where reading the offsets topic begins: only where nothing can have been lost in between."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import BrokerRefused
from toolkit.model import Cluster, LogOffsets
from toolkit.spark.read_state import (
    OffsetsTopicNow,
    ReadPlan,
    ResumePoint,
    StoredPartition,
    longest_gap,
    plan_read,
)
from toolkit.spark.read_tasks import LogTask

THEN = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR_MS = 3_600_000
POINT = ResumePoint(
    next_offset=70,
    log_start=10,
    read_at=THEN,
    topic_id="abc",
    partitions=50,
    delete_retention_ms=24 * HOUR_MS,
    leader_epoch=3,
)
LOG = LogOffsets(log_start=10, log_end=95, last_stable=90)
TOPIC = OffsetsTopicNow(
    requested_at=THEN + timedelta(hours=1),
    topic_id="abc",
    partitions=50,
    delete_retention_ms=24 * HOUR_MS,
)


def planned(
    point: ResumePoint | None = POINT,
    log: LogOffsets = LOG,
    leader_epoch: int | None = 3,
    **topic: Any,
) -> ReadPlan:
    return plan_read(point, log, leader_epoch, replace(TOPIC, **topic))


def test_a_task_that_has_waited_too_long_reads_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is divided while every tombstone must be there, and done when one may be gone."""
    starts = []

    def read(*_: object, start: int) -> None:
        starts.append(start)
        raise BrokerRefused("not now")

    monkeypatch.setattr("toolkit.spark.read_tasks.read_offsets_log", read)
    point = replace(POINT, read_at=datetime.now(UTC) - timedelta(hours=24))
    topic = replace(TOPIC, requested_at=point.read_at + timedelta(hours=1))
    stored = StoredPartition(str(tmp_path), "of it nothing is read", "eu", 7, point)
    (row,) = LogTask(Cluster("eu", ""), topic, 7, LOG, 3, stored).rows()

    assert ([10], "not now") == (starts, row["by_admin"])


def test_reading_goes_on_where_it_ended() -> None:
    """Nothing has changed but the end of the log, so only what is new is read."""
    assert planned() == ReadPlan(70, "")
    assert planned(log=replace(LOG, last_stable=70)) == ReadPlan(70, "")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"point": None}, "not been read before"),
        ({"topic_id": "xyz"}, "re-created"),
        ({"topic_id": ""}, "is unknown"),
        ({"point": replace(POINT, topic_id=""), "topic_id": ""}, "is unknown"),
        ({"partitions": 60}, "had 50 partitions and has 60"),
        ({"log": replace(LOG, log_start=11)}, "began at 10 and begins at 11"),
        ({"log": LogOffsets(71, 95, 90)}, "begins at 71"),
        ({"point": replace(POINT, next_offset=9)}, "begins at 10, after 9"),
        ({"log": replace(LOG, last_stable=69)}, "ends at 69, before 70"),
        ({"leader_epoch": 4}, "leader has changed"),
        ({"leader_epoch": None}, "leader has changed"),
        ({"delete_retention_ms": None}, "could not be read"),
        ({"requested_at": THEN - timedelta(seconds=1)}, "in the future"),
        ({"requested_at": THEN + timedelta(hours=23)}, "23 h ago"),
        ({"delete_retention_ms": 80 * 60_000, "log": LOG}, "only guaranteed for 1 h"),
        ({"point": replace(POINT, delete_retention_ms=0)}, "delete.retention.ms=0"),
    ],
)
def test_a_possible_loss_causes_a_full_reading(changed: dict[str, Any], why: str) -> None:
    """Each change after which the parts would not make the whole, with the reason."""
    plan = planned(**changed)

    assert plan.start == changed.get("log", LOG).log_start
    assert why in plan.why_full


def test_a_setting_that_was_raised_since_does_not_bring_tombstones_back() -> None:
    """What the cleaner removed under the old retention is gone, so the shorter one counts."""
    point = replace(POINT, delete_retention_ms=HOUR_MS)
    assert (
        "delete.retention.ms=3600000" in planned(point, delete_retention_ms=HOUR_MS * 99).why_full
    )


@given(
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**63 - 1),
    st.timedeltas(timedelta(0), timedelta(days=3000)),
)
def test_a_reading_never_goes_on_after_a_tombstone_may_be_gone(
    then_ms: int, now_ms: int, gap: timedelta
) -> None:
    """Whatever the two retentions are, a gap of the shorter one or more means a full reading."""
    point = replace(POINT, delete_retention_ms=then_ms)
    plan = planned(point, delete_retention_ms=now_ms, requested_at=THEN + gap)

    if gap / timedelta(milliseconds=1) >= min(then_ms, now_ms):
        assert plan.why_full
    if not plan.why_full:
        assert plan.start == POINT.next_offset


@given(st.integers(0, 2**63 - 1))
def test_the_margin_is_a_part_of_the_retention_and_at_most_an_hour(retention_ms: int) -> None:
    """The margin does not eat up a short retention, and takes an hour at most of a long one."""
    retention = timedelta(milliseconds=min(retention_ms, 2**40))

    assert retention * 0.7 - timedelta(milliseconds=1) <= longest_gap(retention_ms) <= retention
    assert retention - longest_gap(retention_ms) <= timedelta(hours=1)
