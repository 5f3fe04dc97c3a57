"""Where the offsets of a plan are within their logs, as a picture."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from toolkit.model import GroupState, GroupType, LogOffsets, Snapshot, TopicPartition
from toolkit.plan import Action, Change, Intent, Plan, Position, Step
from toolkit.report.notices import NoticeTone, show_notice
from toolkit.report.plan_chart import show_plan_chart

Shown = list[dict[str, Any]]

MIME = "application/vnd.plotly.v1+json"
HOSTILE = "<img src=x onerror=alert(1)>"
NOW = datetime(2026, 11, 21, tzinfo=UTC)


def plan(*moves: tuple[int | None, int | None], group: str = "payments") -> Plan:
    """Return a plan that moves one partition after the other from an offset to another."""
    changes = tuple(
        Change(
            TopicPartition("orders", number),
            *(None if offset is None else Position(offset) for offset in move),
        )
        for number, move in enumerate(moves)
    )
    step = Step(group, Action.COMMIT, changes, GroupType.CLASSIC, GroupState.EMPTY)
    return Plan(Intent.RESET, "reset", "eu", "c1", NOW, (step,))


def facts(*logs: LogOffsets) -> Snapshot:
    """Return facts about the logs of one partition after the other."""
    by_partition = {TopicPartition("orders", number): log for number, log in enumerate(logs)}
    return Snapshot("eu", "c1", NOW, (), (), by_partition)


def traces(shown: Any) -> dict[str, dict[str, Any]]:
    """Return the traces that stand in the legend, by name."""
    return {trace["name"]: trace for trace in shown.figure["data"] if trace.get("name")}


def test_places_are_within_the_log(shown: Shown) -> None:
    """Every line is as long as its log, and each offset stands where it is in it."""
    logs = [LogOffsets(0, 100), LogOffsets(1000, 3000)]

    show_plan_chart(plan((50, 0), (1500, 2000)), facts(*logs))

    there = traces(shown)
    assert {"orders 0 · payments": 0.5, "orders 1 · payments": 0.25} == dict(
        zip(there["current offset"]["y"], there["current offset"]["x"], strict=True)
    )
    assert ([0], [0.5]) == (there["moves back"]["x"], there["moves forward"]["x"])
    assert [1, 1] == there["the log"]["x"]


def test_an_offset_outside_of_the_log_is_outside_of_its_bar(shown: Shown) -> None:
    """Where an offset is before the log start, the bar of the log begins after it."""
    show_plan_chart(plan((0, 50)), facts(LogOffsets(50, 100)))

    there = traces(shown)
    assert [0] == there["current offset"]["x"]
    assert ([0.5], [0.5]) == (there["the log"]["base"], there["the log"]["x"])


@pytest.mark.parametrize(
    ("move", "name"), [((7, None), "removed"), ((None, 7), "first commit"), ((7, 7), "unchanged")]
)
def test_every_kind_has_its_name(
    shown: Shown, move: tuple[int | None, int | None], name: str
) -> None:
    """What is removed, new or put there again is told apart from what moves."""
    show_plan_chart(plan(move), facts(LogOffsets(0, 10)))

    assert [0.7] == traces(shown)[name]["x"]


def test_the_farthest_come_first(shown: Shown) -> None:
    """Of too many changes those that go furthest are shown, and the title says of how many."""
    logs = [LogOffsets(0, 100)] * 3

    show_plan_chart(plan((50, 49), (50, 0), (50, 40)), facts(*logs), most=2)

    assert ["orders 1 · payments", "orders 2 · payments"] == traces(shown)["current offset"]["y"]
    assert shown[-1]["data"]["text/plain"].endswith(" (2 of 3)")


def test_an_unknown_or_empty_log(shown: Shown) -> None:
    """A partition whose log is not known is not drawn; an empty log is no division by zero."""
    show_plan_chart(plan((5, 0)), facts(LogOffsets(None, None)))
    assert [] == shown

    show_plan_chart(plan((5, 5)), facts(LogOffsets(5, 5)))
    assert [0] == traces(shown)["current offset"]["x"]


def test_names_are_text(shown: Shown) -> None:
    """A group that is named as mark-up is text in the chart and in a notice."""
    show_plan_chart(plan((5, 0), group=HOSTILE), facts(LogOffsets(0, 9)))
    show_notice(HOSTILE, [HOSTILE], command=HOSTILE, tone=NoticeTone.WARN)

    assert "<img" not in str(shown[0]["data"][MIME])
    assert "&lt;img" in str(shown[0]["data"][MIME])
    assert "<img" not in shown[1]["data"]["text/html"]
