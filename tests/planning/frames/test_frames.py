"""Frames of plans, outcomes and snapshots: every fact once, and none that is invented."""

from datetime import datetime, timedelta

import held
import pandas as pd
import pytest
from facts import NOON, live, member, snapshot
from guardrail_cases import ORDERS, plan, step

from toolkit.model import Commit, GroupType, Problem, TopicPartition, Unread
from toolkit.plan import (
    Action,
    Change,
    ChangeStatus,
    Finding,
    Intent,
    Outcome,
    Plan,
    Position,
    Result,
    Severity,
    StepOutcome,
)
from toolkit.planning.frames import row_slices
from toolkit.planning.frames.plan_frames import (
    FINDING_COLUMNS,
    OUTCOME_COLUMNS,
    REVIEW_COLUMNS,
    findings_frame,
    outcome_frame,
    review_columns,
    review_frame,
    summary,
)
from toolkit.planning.frames.snapshot_frames import groups_frame, offsets_frame, problems_frame
from toolkit.planning.lag.lag_rows import partition_rows

FORWARD = Change(TopicPartition("orders", 0), Position(10), Position(1210), "the log end")
BACK = Change(TopicPartition("orders", 1), Position(90, 1, "mine"), Position(10), "offset 10")
NEW = Change(TopicPartition("orders", 2), None, Position(0, None, "saved"), "the log start")
GONE = Change(TopicPartition("orders", 3), Position(5, None, "mine"), None, "deleted")
SAME = Change(TopicPartition("orders", 4), Position(5, 1, "a"), Position(5, 1, "b"), "rescue")
MIXED = plan(
    step(FORWARD, BACK, group_id="a"),
    step(NEW, SAME, group_id="b"),
    step(GONE, action=Action.DELETE_OFFSETS, group_id="b"),
)


def column(name: str, times: dict[tuple[TopicPartition, int], datetime] | None = None) -> list:
    """Return one column of the mixed plan's review, nulls as None."""
    return [value for (value,) in rows(review_frame(MIXED, times or {})[[name]])]


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
    """If both records have a time, it is the difference; a log end has no record."""
    times = {
        (BACK.partition, 90): NOON,
        (BACK.partition, 10): NOON - timedelta(minutes=80),
        (FORWARD.partition, 10): NOON,
    }

    assert [NOON, NOON, None, None, None] == column("before_time", times)
    assert [None, NOON - timedelta(minutes=80), None, None, None] == column("after_time", times)
    assert [None, timedelta(minutes=-80), None, None, None] == column("time_distance", times)


@pytest.mark.parametrize("made", [MIXED, plan()])
def test_columns_and_types_do_not_depend_on_the_plan(made: Plan) -> None:
    """An empty plan has the same columns of the same types."""
    frame = review_frame(made)

    assert list(REVIEW_COLUMNS) == list(frame.columns)
    times = ["datetime64[ms, UTC]"] * 2 + ["timedelta64[ms]"]
    names = ["partition", "before", "after", "distance"]
    names += ["before_time", "after_time", "time_distance"]
    assert ["Int64"] * 4 + times == [str(dtype) for dtype in frame[names].dtypes]


ONE_CHANGE = plan(step(FORWARD))
ALL_KINDS = (
    "5 partitions of 2 groups: 1 forward by 1,200 offsets, 1 back by 80 offsets, 1 at the same "
    "offset, 1 newly committed, 1 removed"
)


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (plan(), "no changes"),
        (ONE_CHANGE, "1 partition of 1 group: 1 forward by 1,200 offsets"),
        (MIXED, ALL_KINDS),
        (plan(step(action=Action.DELETE_GROUP)), "0 partitions of 1 group"),
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

    for made in (frame, findings_frame([], cluster="eu")):
        assert list(FINDING_COLUMNS) == list(made.columns)
    assert "Int64" == str(frame["partition"].dtype)
    assert [
        ("eu", "note", "no-commit", "g", "orders", 3, "no committed offset"),
        ("eu", "block", "in-the-future", None, None, None, "still to come"),
    ] == rows(frame)


@pytest.mark.parametrize("intent", [*Intent])
def test_metadata_changes_are_shown(intent: Intent) -> None:
    """If an offset is committed or removed, its metadata is as well, perhaps only that."""
    holds = intent in {Intent.PAUSE, Intent.RESUME}
    assert holds != ("metadata" in review_columns(intent))


def outcome(*steps: StepOutcome) -> Outcome:
    return Outcome("run", "fingerprint", NOON, NOON, steps)


def rows(frame: pd.DataFrame) -> list[tuple[object, ...]]:
    cells = frame.astype(object).where(frame.notna(), None)
    return list(cells.itertuples(index=False, name=None))


def test_each_change_has_a_row_and_so_has_a_step_without_changes() -> None:
    """Rows come in the order of the plan, with its words; offset 0 is not nothing."""
    refused = StepOutcome("shell", Action.DELETE_GROUP, ChangeStatus.REFUSED, "not authorised")
    results = (
        Result(ORDERS, ChangeStatus.DONE, found=Position(0, 3, "mine")),
        Result(ORDERS._replace(partition=1), ChangeStatus.FAILED, "nothing was read back"),
    )
    half = StepOutcome("g", Action.COMMIT, ChangeStatus.FAILED, "", results)
    # The words that were asked for, not those of the hold.
    holds = [StepOutcome("g", one, ChangeStatus.DONE) for one in (Action.HOLD, Action.RELEASE)]

    assert [
        ("shell", "delete-group", None, None, "refused", None, "not authorised"),
        ("g", "commit", "orders", 0, "done", 0, ""),
        ("g", "commit", "orders", 1, "failed", None, "nothing was read back"),
        ("g", "pause", None, None, "done", None, ""),
        ("g", "resume", None, None, "done", None, ""),
    ] == rows(outcome_frame(outcome(refused, half, *holds)))


def test_numbers_are_integers_also_where_some_are_missing() -> None:
    """An offset beyond 2^53 stays exact, and a frame without rows has the same columns."""
    exact = 2**63 - 1
    results = (
        Result(ORDERS, ChangeStatus.DONE, found=Position(exact)),
        Result(ORDERS, ChangeStatus.DONE),
    )
    frame = outcome_frame(outcome(StepOutcome("g", Action.COMMIT, ChangeStatus.DONE, "", results)))
    empty = outcome_frame(outcome())

    assert exact == frame["read_back"][0]
    for made in (frame, empty):
        assert list(OUTCOME_COLUMNS) == list(made.columns)
        assert ("Int64", "Int64") == (made["partition"].dtype, made["read_back"].dtype)


@pytest.mark.parametrize("count", [0, 1, 4, 5])
def test_slices_give_the_columns_of_all_rows_at_once(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows, order, index and types do not depend on the slices, and the frame is not changed."""
    frame = pd.DataFrame({"number": pd.array(range(count), "Int64")}, index=[7] * count)
    before = frame.copy()

    def columns(rows: pd.DataFrame) -> dict[str, object]:
        return {
            "number": rows["number"] + 1,
            "text": [f"{one}" for one in rows["number"]],
            "half": (rows["number"] / 2).astype("Float64").array,
        }

    expected = frame.assign(**columns(frame))
    monkeypatch.setattr(row_slices, "ROWS", 2)
    actual = row_slices.assign_by_slices(frame, columns)
    pd.testing.assert_frame_equal(expected, actual)
    pd.testing.assert_frame_equal(before, frame)


def test_an_owned_partition_without_a_commit_has_a_row() -> None:
    """It has its owner and no offset; a share group, which has no offsets, lacks none."""
    owner = member("orders", owns=(TopicPartition("orders", 1),))
    facts = snapshot(live("g", owner), commits=(Commit("g", "orders", 0, 7),))

    found = rows(offsets_frame(facts)[["partition", "committed", "owner"]])
    assert [(0, 7, ""), (1, None, "app @ /10.0.0.1")] == found
    assert offsets_frame(snapshot(live("g", owner, type=GroupType.SHARE))).empty


def test_the_owner_of_a_paused_partition_is_its_holder() -> None:
    """So its lag is not that of a consumer; rows for tables have the same."""
    unsaid = held.holder(2, note=None, name="!other")
    facts = held.facts(held.group(held.reader("a", 0), held.holder(1), unsaid))
    names = ["a @ /10.0.0.1", "paused by alice @ desk", f"paused by {unsaid.display_name}", ""]
    table = partition_rows(facts)

    assert names == list(offsets_frame(facts)["owner"])
    assert names == [row[list(table.columns).index("owner")] for row in table.rows]


def test_a_large_offset_stays_exact_beside_a_missing_one() -> None:
    """An offset beyond the precision of a float is not rounded because another is unknown."""
    facts = snapshot(
        live("g"),
        commits=(Commit("g", "orders", 0, 2**60 + 1), Commit("g", "orders", 1, 7)),
        logs={("orders", 0): (0, 2**60 + 3), ("orders", 1): (None, None)},
    )
    rows = offsets_frame(facts)

    assert [2**60 + 1, 7] == list(rows["committed"])
    assert 2**60 + 3 == rows["log_end"].iloc[0]


def test_columns_keep_their_types_when_empty() -> None:
    """An empty cluster gives the same columns and types as a full one."""
    facts = snapshot(commits=(Commit("g", "orders", 0, 7, committed_at=NOON),))

    assert dict(offsets_frame(facts).dtypes) == dict(offsets_frame(snapshot()).dtypes)
    assert NOON == offsets_frame(facts)["committed_at"].iloc[0]


def test_members_of_an_undescribed_group_are_unknown_not_none() -> None:
    """A group that could not be described has no member count, not a count of 0."""
    rows = groups_frame(snapshot(live("g", described=False), live("h")))

    assert [True, False] == list(rows["members"].isna())


def test_a_problem_keeps_its_subject() -> None:
    """Its row names the subject as far as there is one."""
    frame = problems_frame([Problem(Unread.LOG_OFFSETS, "no leader", None, "t", 3)], cluster="eu")

    assert [("eu", None, "t", 3)] == rows(frame[["cluster", "group", "topic", "partition"]])
