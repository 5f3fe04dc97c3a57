"""Pictures: when offsets expire, and where those of a plan are within their logs."""

from datetime import timedelta
from typing import Any

import pytest
from expiry_facts import CLASSIC, EMPTY, HOUR_S, KIP848, READS, T0, forecast_of_days
from facts import snapshot
from guardrail_cases import change, plan, step

from toolkit.model import Snapshot, TopicPartition
from toolkit.plan import Plan
from toolkit.report.change_cards import show_plan_chart
from toolkit.report.fleet_charts import show_expiry_timeline
from toolkit.report.notices import NoticeTone, show_notice

HOSTILE = "<a href='http://evil.invalid'>orders</a>"
ESCAPED = "&lt;a href='http://evil.invalid'&gt;orders&lt;/a&gt;"
EXPIRES, BOUND = "expires", "expires (estimate, see confidence)"
AT_RISK = "expires if the group stops now"


def draw(*rows: dict[str, Any], top_n: int = 30) -> None:
    """Show the timeline of some offsets, as of an hour after the first instant."""
    show_expiry_timeline(forecast_of_days(*rows), now=T0 + timedelta(hours=1), top_n=top_n)


def marks(shown: Any) -> dict[str, list[tuple[str, str]]]:
    """Return by kind the marks of the figure: on which line, and when."""
    return {
        trace["name"]: list(zip(trace["y"], trace["x"], strict=True))
        for trace in shown.figure["data"]
    }


def test_every_kind_of_mark_is_at_its_time(shown: Any) -> None:
    """Expiry, latest expiry and risk are distinguished."""
    draw(
        {"group": "left", **CLASSIC, **EMPTY, "empty_since": 2 * HOUR_S},
        {"group": "pending", "pending": None, "committed_at": HOUR_S},
        {"group": "live", **KIP848, **READS, "committed_at": 0},
        {"group": "kept", **CLASSIC, **READS},
    )

    assert {
        EXPIRES: [("left · eu", "2026-03-02 02:00:00")],
        BOUND: [("pending · eu", "2026-03-02 01:00:00")],
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


NOW = "2026-03-01 01:00:00"


def test_overdue_offsets_are_shown_at_the_line_of_now(shown: Any) -> None:
    """So are offsets that would expire at once."""
    draw({"committed_at": -30 * HOUR_S}, {**KIP848, **READS, "committed_at": -40 * HOUR_S})

    assert {EXPIRES: [("g · eu", NOW)], AT_RISK: [("g · eu", NOW)]} == marks(shown)
    layout = shown.figure["layout"]
    assert NOW == layout["shapes"][0]["x0"]
    assert layout["xaxis"]["range"][0] < NOW < layout["xaxis"]["range"][1]


def test_the_first_groups_are_shown_and_the_rest_counted(shown: Any) -> None:
    """Groups that lose something first are on top, and the title says how many are left out."""
    draw(*({"group": f"g{n}", "committed_at": 10 * HOUR_S - n * HOUR_S} for n in range(5)), top_n=2)

    layout = shown.figure["layout"]
    assert ["g4 · eu", "g3 · eu"] == layout["yaxis"]["categoryarray"]
    assert layout["title"]["text"].endswith(" (first 2 of 5 groups)")
    assert 2 == len(marks(shown)[EXPIRES])


def test_names_are_text(shown: Any) -> None:
    """A name that looks like mark-up is text in charts and notices; hidden characters show."""
    draw({"group": HOSTILE, "cluster": "a\u202eb&lt;"})
    assert f"{ESCAPED} · a\\u202eb&amp;lt;" == marks(shown)[EXPIRES][0][0]
    show_plan_chart(plan_of((5, 0), group=HOSTILE), facts((0, 9)))
    assert ESCAPED in str(shown[1])
    assert HOSTILE not in str(shown)
    show_notice(HOSTILE, [HOSTILE], command=HOSTILE, tone=NoticeTone.WARN)
    assert "<a href" not in shown.html


def test_nothing_to_show_is_nothing(shown: Any) -> None:
    """Where nothing expires and nothing is at risk there is no picture."""
    draw({**CLASSIC, **READS})
    draw()

    assert [] == shown


MIME = "application/vnd.plotly.v1+json"
PLACES = [TopicPartition("orders", number) for number in range(3)]


def plan_of(*moves: tuple[int | None, int | None], group: str = "payments") -> Plan:
    """Return a plan that moves one partition after the other from an offset to another."""
    changes = (change(*move, PLACES[number]) for number, move in enumerate(moves))
    return plan(step(*changes, group_id=group))


def facts(*logs: tuple[int | None, int | None]) -> Snapshot:
    """Return facts about the logs of one partition after the other, from start to end."""
    return snapshot(logs=dict(zip(PLACES, logs, strict=False)))


def traces(shown: Any) -> dict[str, dict[str, Any]]:
    """Return the traces that stand in the legend, by name."""
    return {trace["name"]: trace for trace in shown.figure["data"] if trace.get("name")}


def test_places_are_within_the_log(shown: Any) -> None:
    """A line is as long as its log; an offset from before the log start is before its bar."""
    logs = [(0, 100), (1000, 3000)]

    show_plan_chart(plan_of((50, 0), (1500, 2000)), facts(*logs))

    there = traces(shown)
    assert {"orders 0 · payments": 0.5, "orders 1 · payments": 0.25} == dict(
        zip(there["current offset"]["y"], there["current offset"]["x"], strict=True)
    )
    assert ([0], [0.5]) == (there["moves back"]["x"], there["moves forward"]["x"])
    assert [1, 1] == there["the log"]["x"]

    shown.clear()
    show_plan_chart(plan_of((0, 50)), facts((50, 100)))

    there = traces(shown)
    assert [0] == there["current offset"]["x"]
    assert ([0.5], [0.5]) == (there["the log"]["base"], there["the log"]["x"])


@pytest.mark.parametrize(
    ("move", "name"), [((7, None), "removed"), ((None, 7), "first commit"), ((7, 7), "unchanged")]
)
def test_every_kind_has_its_name(
    shown: Any, move: tuple[int | None, int | None], name: str
) -> None:
    """Removed, new and restored offsets are distinguished from moved ones."""
    show_plan_chart(plan_of(move), facts((0, 10)))

    assert [0.7] == traces(shown)[name]["x"]


def test_the_farthest_come_first(shown: Any) -> None:
    """Of too many changes those that go furthest are shown, and the title says of how many."""
    logs = [(0, 100)] * 3

    show_plan_chart(plan_of((50, 49), (50, 0), (50, 40)), facts(*logs), most=2)

    assert ["orders 1 · payments", "orders 2 · payments"] == traces(shown)["current offset"]["y"]
    assert shown.text.endswith(" (2 of 3)")


def test_an_unknown_or_empty_log(shown: Any) -> None:
    """A partition whose log is not known is not drawn; an empty log is no division by zero."""
    show_plan_chart(plan_of((5, 0)), facts((None, None)))
    assert [] == shown

    show_plan_chart(plan_of((5, 5)), facts((5, 5)))
    assert [0] == traces(shown)["current offset"]["x"]
