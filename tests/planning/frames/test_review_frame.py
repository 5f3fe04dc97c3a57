"""What a reviewer sees: every change with its distance, and the plan in one sentence."""

from __future__ import annotations

from datetime import datetime, timedelta

import pandas as pd
import pytest
from facts import NOON

from toolkit.model import GroupState, GroupType, TopicPartition
from toolkit.plan import Action, Change, Finding, Intent, Plan, Position, Severity, Step
from toolkit.planning.frames.plan_summary import summary
from toolkit.planning.frames.review_frame import (
    FINDING_COLUMNS,
    REVIEW_COLUMNS,
    findings_frame,
    review_columns,
    review_frame,
)

FORWARD = Change(TopicPartition("orders", 0), Position(10), Position(1210), "the log end")
BACK = Change(TopicPartition("orders", 1), Position(90, 1, "mine"), Position(10), "offset 10")
NEW = Change(TopicPartition("orders", 2), None, Position(0, None, "saved"), "the log start")
GONE = Change(TopicPartition("orders", 3), Position(5, None, "mine"), None, "deleted")
SAME = Change(TopicPartition("orders", 4), Position(5, 1, "a"), Position(5, 1, "b"), "rescue")


def plan(*steps: tuple[str, Action, tuple[Change, ...]]) -> Plan:
    """Return a plan of some steps about idle classic groups."""
    made = tuple(Step(*step, GroupType.CLASSIC, GroupState.EMPTY) for step in steps)
    return Plan(Intent.RESET, "reset", "eu", "id", NOON, made)


MIXED = plan(
    ("a", Action.COMMIT, (FORWARD, BACK)),
    ("b", Action.COMMIT, (NEW, SAME)),
    ("b", Action.DELETE_OFFSETS, (GONE,)),
)


def column(name: str, times: dict[tuple[TopicPartition, int], datetime] | None = None) -> list:
    """Return one column of the mixed plan's review, nulls as None."""
    values = review_frame(MIXED, times or {})[name].astype(object)
    return list(values.where(values.notna(), None))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("group", ["a", "a", "b", "b", "b"]),
        ("action", ["commit", "commit", "commit", "commit", "delete-offsets"]),
        ("topic", ["orders"] * 5),
        ("partition", [0, 1, 2, 4, 3]),
        ("before", [10, 90, None, 5, 5]),
        ("after", [1210, 10, 0, 5, None]),
        ("distance", [1200, -80, None, 0, None]),
        ("before_time", [None] * 5),
        ("time_distance", [None] * 5),
        ("metadata", ["", "removed", "set", "changed", "removed"]),
        ("why", ["the log end", "offset 10", "the log start", "rescue", "deleted"]),
    ],
)
def test_a_row_for_each_change(name: str, expected: list[object]) -> None:
    """Rows are in the order of the plan; where there is no number there is none."""
    assert expected == column(name)


def test_the_distance_in_time_is_that_of_the_records() -> None:
    """Where both records have a time, the distance is theirs; a log end has no record."""
    times = {
        (BACK.partition, 90): NOON,
        (BACK.partition, 10): NOON - timedelta(minutes=80),
        (FORWARD.partition, 10): NOON,
    }

    assert [NOON, NOON, None, None, None] == column("before_time", times)
    assert [None, NOON - timedelta(minutes=80), None, None, None] == column("after_time", times)
    assert [None, timedelta(minutes=-80), None, None, None] == column("time_distance", times)


@pytest.mark.parametrize("made", [MIXED, plan()])
def test_columns_and_types_do_not_depend_on_what_is_planned(made: Plan) -> None:
    """An empty plan has the same columns of the same types as any other."""
    frame = review_frame(made)

    assert list(REVIEW_COLUMNS) == list(frame.columns)
    assert ["Int64"] * 4 == [
        str(frame[name].dtype) for name in ("partition", "before", "after", "distance")
    ]
    assert ["datetime64[ms, UTC]"] * 2 + ["timedelta64[ms]"] == [
        str(frame[name].dtype) for name in ("before_time", "after_time", "time_distance")
    ]


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (plan(), "no changes"),
        (
            plan(("a", Action.COMMIT, (FORWARD,))),
            "1 partition of 1 group: 1 forward by 1,200 offsets",
        ),
        (
            MIXED,
            (
                "5 partitions of 2 groups: 1 forward by 1,200 offsets, 1 back by 80 offsets, 1 "
                "at the same offset, 1 newly committed, 1 removed"
            ),
        ),
        (plan(("a", Action.DELETE_GROUP, ())), "0 partitions of 1 group"),
    ],
)
def test_a_plan_in_one_sentence(made: Plan, sentence: str) -> None:
    """The sentence counts every change once, by where it goes."""
    assert sentence == summary(made)


def test_findings_as_rows() -> None:
    """One row a finding; what it is not about is null."""
    findings = [
        Finding("no-commit", Severity.NOTE, "no committed offset", "g", "orders", 3),
        Finding("in-the-future", Severity.BLOCK, "still to come"),
    ]
    frame = findings_frame(findings, cluster="eu")

    assert list(FINDING_COLUMNS) == list(frame.columns)
    assert "Int64" == str(frame["partition"].dtype)
    assert ["eu", "note", "no-commit", "g", "orders", 3, "no committed offset"] == list(
        frame.iloc[0]
    )
    assert ["eu", "block", "in-the-future", None, None, pd.NA, "still to come"] == list(
        frame.iloc[1]
    )
    assert list(FINDING_COLUMNS) == list(findings_frame([], cluster="eu").columns)


@pytest.mark.parametrize("intent", [*Intent])
def test_people_see_what_becomes_of_metadata(intent: Intent) -> None:
    """Where an offset is committed or removed, so is its metadata, perhaps that alone."""
    holds = intent in {Intent.PAUSE, Intent.RESUME}
    assert holds != ("metadata" in review_columns(intent))
