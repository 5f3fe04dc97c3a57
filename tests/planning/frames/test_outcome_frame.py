"""What became of a plan, as a frame."""

from __future__ import annotations

import pandas as pd
from facts import NOON

from toolkit.model import TopicPartition
from toolkit.plan import Action, ChangeStatus, Outcome, Position, Result, StepOutcome
from toolkit.planning.frames.outcome_frame import OUTCOME_COLUMNS, outcome_frame

ORDERS = TopicPartition("orders", 0)


def outcome(*steps: StepOutcome) -> Outcome:
    """Return an outcome of steps."""
    return Outcome("run", "fingerprint", NOON, NOON, steps)


def rows(frame: pd.DataFrame) -> list[tuple[object, ...]]:
    """Return the rows of a frame with None for null."""
    return [
        tuple(None if pd.isna(value) else value for value in row)
        for row in frame.itertuples(index=False)
    ]


def test_each_change_has_a_row_and_so_has_a_step_without_changes() -> None:
    """Rows come in the order of the plan; offset 0 is not nothing."""
    refused = StepOutcome("shell", Action.DELETE_GROUP, ChangeStatus.REFUSED, "not authorised")
    results = (
        Result(ORDERS, ChangeStatus.DONE, found=Position(0, 3, "mine")),
        Result(ORDERS._replace(partition=1), ChangeStatus.FAILED, "nothing was read back"),
    )
    half = StepOutcome("g", Action.COMMIT, ChangeStatus.FAILED, "", results)

    assert [
        ("shell", "delete-group", None, None, "refused", None, "not authorised"),
        ("g", "commit", "orders", 0, "done", 0, ""),
        ("g", "commit", "orders", 1, "failed", None, "nothing was read back"),
    ] == rows(outcome_frame(outcome(refused, half)))


def test_partitions_are_paused_and_resumed() -> None:
    """The result of a change has the words that it was asked for with, not those of the hold."""
    done = [StepOutcome("g", one, ChangeStatus.DONE) for one in (Action.HOLD, Action.RELEASE)]

    assert ["pause", "resume"] == outcome_frame(outcome(*done))["action"].to_list()


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
