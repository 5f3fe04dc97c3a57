"""Pictures: when offsets expire, and where those of a plan are within their logs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from expiry_facts import CLASSIC, EMPTY, KIP848, READS, T0, frame

from toolkit.model import GroupState, GroupType, LogOffsets, Snapshot, TopicPartition
from toolkit.plan import Action, Change, Intent, Plan, Position, Step
from toolkit.planning.expiry.expiry_forecast import select_expiring
from toolkit.planning.expiry.with_expiry import with_expiry
from toolkit.report.expiry_chart import show_expiry_timeline
from toolkit.report.notices import NoticeTone, show_notice
from toolkit.report.plan_chart import show_plan_chart

HOSTILE = "<a href='http://evil.invalid'>orders</a>"
ESCAPED = "&lt;a href='http://evil.invalid'&gt;orders&lt;/a&gt;"
EXPIRES, BOUND, AT_RISK = (
    "expires",
    "expires (estimate, see confidence)",
    "expires if the group stops now",
)
HOUR_S = 3600
LONG = {"retention_s": 24 * HOUR_S, "check_interval_s": 600}


def draw(*rows: dict[str, Any], within_s: float = 48 * HOUR_S, top_n: int = 30) -> None:
    """Show the timeline of some offsets, as of an hour after the first instant."""
    now = T0 + timedelta(hours=1)
    numbered = [{"partition": number, **LONG, **row} for number, row in enumerate(rows)]
    found = select_expiring(with_expiry(frame(*numbered), now=now), now=now, within_s=within_s)
    show_expiry_timeline(found, now=now, top_n=top_n)


def marks(shown: Any) -> dict[str, list[tuple[str, str]]]:
    """Return by kind the marks of the figure: on which line, and when."""
    return {
        trace["name"]: list(zip(trace["y"], trace["x"], strict=True))
        for trace in shown.figure["data"]
    }


def test_every_kind_of_mark_is_at_its_time(shown: Any) -> None:
    """What expires, what does so at the latest then, and what is at risk are told apart."""
    draw(
        {"group": "left", **CLASSIC, **EMPTY, "empty_since": 2 * HOUR_S},
        {"group": "seen", "source": "admin", "committed_at": None, "seen_since": HOUR_S},
        {"group": "live", **KIP848, **READS, "committed_at": 0},
        {"group": "kept", **CLASSIC, **READS},
    )

    assert {
        EXPIRES: [("left · eu", "2026-03-02 02:00:00")],
        BOUND: [("seen · eu", "2026-03-02 01:00:00")],
        AT_RISK: [("live · eu", "2026-03-02 00:00:00")],
    } == marks(shown)


def test_offsets_that_go_together_are_one_mark(shown: Any) -> None:
    """A mark says how many offsets of how many topics it stands for; more of them are larger."""
    late = {"committed_at": 20 * HOUR_S}
    draw({}, {"topic": "u"}, {"committed_at": 5}, late)

    (trace,) = shown.figure["data"]
    times = ["2026-03-02 00:00:00", "2026-03-02 20:00:00"]
    assert [("g · eu", time) for time in times] == marks(shown)[EXPIRES]
    assert [
        "3 offsets of 2 topics, 2026-03-02 00:00 UTC",
        "1 offset of 1 topic, 2026-03-02 20:00 UTC",
    ] == [words[0] for words in trace["customdata"]]
    assert trace["marker"]["size"][0] > trace["marker"]["size"][1]


def test_what_is_due_is_shown_as_of_now(shown: Any) -> None:
    """An offset that is overdue, and one that would go at once, stand at the line of now."""
    draw({"committed_at": -30 * HOUR_S}, {**KIP848, **READS, "committed_at": -40 * HOUR_S})

    assert {EXPIRES: [("g · eu", NOW)], AT_RISK: [("g · eu", NOW)]} == marks(shown)
    layout = shown.figure["layout"]
    assert NOW == layout["shapes"][0]["x0"]
    assert layout["xaxis"]["range"][0] < NOW < layout["xaxis"]["range"][1]


NOW = "2026-03-01 01:00:00"


def test_the_first_groups_are_shown_and_the_rest_counted(shown: Any) -> None:
    """Groups that lose something first are on top, and the title says how many are left out."""
    draw(*({"group": f"g{n}", "committed_at": 10 * HOUR_S - n * HOUR_S} for n in range(5)), top_n=2)

    layout = shown.figure["layout"]
    assert ["g4 · eu", "g3 · eu"] == layout["yaxis"]["categoryarray"]
    assert layout["title"]["text"].endswith(" (first 2 of 5 groups)")
    assert 2 == len(marks(shown)[EXPIRES])


def test_names_are_text(shown: Any) -> None:
    """A name that looks like a link is none, and one that hides characters shows them."""
    draw({"group": HOSTILE, "cluster": "a\u202eb&lt;"})

    assert f"{ESCAPED} · a\\u202eb&amp;lt;" == marks(shown)[EXPIRES][0][0]
    assert HOSTILE not in str(shown)


def test_nothing_to_show_is_nothing(shown: Any) -> None:
    """Where nothing expires and nothing is at risk there is no picture."""
    draw({**CLASSIC, **READS})
    draw()

    assert [] == shown


Shown = list[dict[str, Any]]

MIME = "application/vnd.plotly.v1+json"
HOSTILE_GROUP = "<img src=x onerror=alert(1)>"
PLANNED_AT = datetime(2026, 11, 21, tzinfo=UTC)


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
    return Plan(Intent.RESET, "reset", "eu", "c1", PLANNED_AT, (step,))


def facts(*logs: LogOffsets) -> Snapshot:
    """Return facts about the logs of one partition after the other."""
    by_partition = {TopicPartition("orders", number): log for number, log in enumerate(logs)}
    return Snapshot("eu", "c1", PLANNED_AT, (), (), by_partition)


def traces(shown: Any) -> dict[str, dict[str, Any]]:
    """Return the traces that stand in the legend, by name."""
    return {trace["name"]: trace for trace in shown.figure["data"] if trace.get("name")}


def test_places_are_within_the_log(shown: Shown) -> None:
    """A line is as long as its log; an offset from before the log start is before its bar."""
    logs = [LogOffsets(0, 100), LogOffsets(1000, 3000)]

    show_plan_chart(plan((50, 0), (1500, 2000)), facts(*logs))

    there = traces(shown)
    assert {"orders 0 · payments": 0.5, "orders 1 · payments": 0.25} == dict(
        zip(there["current offset"]["y"], there["current offset"]["x"], strict=True)
    )
    assert ([0], [0.5]) == (there["moves back"]["x"], there["moves forward"]["x"])
    assert [1, 1] == there["the log"]["x"]

    shown.clear()
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


def test_names_of_a_plan_are_text(shown: Shown) -> None:
    """A group that is named as mark-up is text in the chart and in a notice."""
    show_plan_chart(plan((5, 0), group=HOSTILE_GROUP), facts(LogOffsets(0, 9)))
    show_notice(HOSTILE_GROUP, [HOSTILE_GROUP], command=HOSTILE_GROUP, tone=NoticeTone.WARN)

    assert "<img" not in str(shown[0]["data"][MIME])
    assert "&lt;img" in str(shown[0]["data"][MIME])
    assert "<img" not in shown[1]["data"]["text/html"]
