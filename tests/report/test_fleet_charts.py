"""The pictures of a fleet, and what its report concludes."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pytest

from toolkit.errors import StateFileError
from toolkit.journeys.open_next_step import open_or_show
from toolkit.planning.lag.group_summary import FleetFrames
from toolkit.report.display import HEADLESS_VARIABLE, ROLE_KEY, TONE_KEY
from toolkit.report.figures import BAD, CAUTION, GOOD, SERIES, UNKNOWN, UNUSED, series_colours
from toolkit.report.fleet_charts import (
    show_lag_heat_map,
    show_lag_history,
    show_status_chart,
    show_time_lag_chart,
)
from toolkit.report.fleet_report import FleetReport
from toolkit.report.lag_report import (
    show_lag_chart,
    show_partition_lag_chart,
    show_unsubscribed_lag_chart,
)

MIME = "application/vnd.plotly.v1+json"
HOSTILE = "<a href='http://evil.invalid'>x</a>"
T0, HOUR = datetime(2026, 3, 1, tzinfo=UTC), timedelta(hours=1)


def title_of(figure: dict[str, Any]) -> str:
    """Return the title of a figure."""
    return str(figure["layout"]["title"]["text"])


def test_groups_are_counted_by_cluster_and_status(shown: Any) -> None:
    """A group without a status counts as unknown."""
    words = ["OK", "OK", "ERR", None]
    show_status_chart(pd.DataFrame({"cluster": ["eu", "eu", "eu", "us"], "status": words}))

    traces = shown.figure["data"]
    drawn = {one["name"]: dict(zip(one["y"], one["x"], strict=True)) for one in traces}
    ok, err, unknown = {"eu": 2, "us": 0}, {"eu": 1, "us": 0}, {"eu": 0, "us": 1}
    assert {"OK": ok, "ERR": err, "unknown": unknown} == drawn


def test_the_heat_map_has_the_groups_and_topics_with_most_lag(shown: Any) -> None:
    """Lag of all partitions of a topic is added up; no lag and no known lag are no colour."""
    rows = pd.DataFrame(
        {
            "cluster": "eu",
            "group": ["slow", "slow", "late", "fine", HOSTILE, "odd"],
            "topic": ["t", "t", "u", "t", HOSTILE, "u"],
            "lag": pd.array([5, 7, 100, 0, 1, None], "Int64"),
        }
    )
    show_lag_heat_map(rows, top_n=3)

    (trace,) = shown.figure["data"]
    assert "Lag by group and topic; 1 partition unknown" == title_of(shown.figure)
    assert ["late · eu", "slow · eu"] == trace["y"][:2]
    assert trace["x"][:2] == ["u", "t"]
    assert [[100.0, None, None], [None, 12.0, None]] == trace["customdata"][:2]
    assert "href='http" not in trace["y"][2].replace("&lt;a href", "")
    assert "fine · eu" not in trace["y"]


def test_every_group_has_a_name_to_see(shown: Any) -> None:
    """The empty name is in quotes, and what is invisible is spelt out, in every chart of lag."""
    names = ["", "pay\u200fments"]
    rows = pd.DataFrame({"cluster": "eu", "group": names, "topic": "t"})
    rows["lag"], rows["unknown_lag_partitions"] = pd.array([7, 5], "Int64"), 0
    show_lag_heat_map(rows)
    show_lag_chart(rows)
    show_unsubscribed_lag_chart(rows.assign(subscribed_lag=rows["lag"], unsubscribed_lag=1))

    drawn = [output["data"][MIME]["data"][0]["y"] for output in shown]
    assert [['"" · eu', "pay\\u200fments · eu"]] * 3 == drawn


def test_lag_is_not_called_records(shown: Any) -> None:
    """Markers and what was compacted away have offsets, and lag counts these."""
    rows = pd.DataFrame({"cluster": "eu", "group": ["a"], "topic": "t", "partition": 0})
    rows["lag"], rows["owner"] = pd.array([7], "Int64"), ""
    rows["unknown_lag_partitions"] = 1
    show_lag_heat_map(rows)
    show_lag_chart(rows)
    show_partition_lag_chart(rows)
    runs = pd.concat([rows.assign(taken_at=T0), rows.assign(taken_at=T0 + HOUR)])
    show_lag_history(runs, rows)

    assert 4 == len(shown)
    assert "records" not in str([output["data"][MIME] for output in shown])


def test_ages_are_counted_up_to_their_ends(shown: Any) -> None:
    """What waits for exactly a second is no longer under one; what is unknown is not drawn."""
    ages = pd.array([0, 0.5, 1, 59.9, 60, 1e6, None], "Float64")
    show_time_lag_chart(pd.DataFrame({"cluster": "eu", "time_lag_s": ages}))

    (trace,) = shown.figure["data"]
    bins = ["caught up", *(f"under {age}" for age in ("1 s", "10 s", "1 min", "10 min"))]
    expected = dict.fromkeys([*bins, "1 d or more"], 1)
    assert expected == dict(zip(trace["x"], trace["y"], strict=True))


def test_the_history_shows_the_groups_that_are_asked_for(shown: Any) -> None:
    """
    A line for each, broken where a run has no lag, or not the group; one run makes no line.

    Where it is the lag of some partitions only, the mark is open, and the title says so.
    """
    first, second, third = T0, T0 + HOUR, T0 + 2 * HOUR
    rows = pd.DataFrame({"cluster": "eu", "group": [*"aaabb"]})
    rows["lag"] = pd.array([1, None, 9, 50, 3], "Int64")
    rows["unknown_lag_partitions"] = pd.array([None, None, 2, 0, 0], "Int64")
    rows["taken_at"] = [first, second, third, first, third]
    worst = rows.iloc[:1][["cluster", "group"]]
    show_lag_history(rows[rows["taken_at"] == first], worst)
    assert [] == shown
    show_lag_history(rows, worst)

    (trace,) = shown.figure["data"]
    assert ("a · eu", [1, None, 9]) == (trace["name"], trace["y"])
    assert ["circle", "circle", "circle-open"] == trace["marker"]["symbol"]
    assert "open marks: unknown for some partitions" in title_of(shown.figure)
    shown.clear()
    show_lag_history(rows, rows.iloc[3:4][["cluster", "group"]])
    (trace,) = shown.figure["data"]
    assert ("b · eu", [50, None, 3]) == (trace["name"], trace["y"])
    assert "open" not in title_of(shown.figure)


def test_nothing_is_drawn_of_nothing(shown: Any) -> None:
    """An empty fleet has no picture instead of an empty one, and so has "the first 0"."""
    lag = pd.DataFrame({"cluster": ["eu"], "group": ["g"], "topic": ["t"], "lag": [7]})
    show_lag_heat_map(lag, top_n=0)
    columns = ["cluster", "group", "topic", "lag", "time_lag_s", "status", "taken_at"]
    columns.append("unknown_lag_partitions")
    nothing = pd.DataFrame(columns=columns)
    for show in (show_status_chart, show_lag_heat_map, show_time_lag_chart):
        show(nothing)
    show_lag_history(nothing, nothing)

    assert [] == shown


def test_a_colour_means_one_thing_in_all_charts(shown: Any) -> None:
    """A cluster keeps its colour where others are not drawn, and has none that means a status."""
    groups = pd.DataFrame({"cluster": ["eu", "us"], "group": "g", "lag": [pd.NA, 5]})
    groups = groups.assign(status=["OK", "ERR"]).astype({"lag": "Int64"})
    groups["unknown_lag_partitions"] = [2, 0]
    partitions = groups.assign(topic="t", time_lag_s=[None, 5.0])
    show_status_chart(groups)
    show_lag_chart(groups)
    show_time_lag_chart(partitions)
    status, lag, time_lag = (
        {trace["name"]: trace["marker"]["color"] for trace in one["data"][MIME]["data"]}
        for one in shown
    )

    assert "(top 1); 2 partitions unknown" in title_of(shown[1]["data"][MIME])
    assert ["us"] == list(lag) == list(time_lag)
    assert lag == time_lag
    assert lag["us"] != series_colours(["us"])["us"]  # which would be that of eu
    assert set(SERIES).isdisjoint({*status.values(), BAD, CAUTION, GOOD, UNUSED, UNKNOWN})


def test_counts_have_a_sequential_scale(shown: Any) -> None:
    """In the heat map, more is the same colour and stronger."""
    rows = pd.DataFrame({"cluster": "eu", "group": "g", "topic": ["t", "u"], "lag": [5, 500]})
    show_lag_heat_map(rows)

    (heat_map,) = shown.figure["layout"]["template"]["data"]["heatmap"]
    assert {"rgba(0,114,178"} == {c.rpartition(",")[0] for _, c in heat_map["colorscale"]}
    assert "colorscale" not in shown.figure["data"][0]


GROUPS = pd.DataFrame(
    [
        ("eu", "slow", "WARN", "WARN", 9_000),
        ("eu", "fine", "OK", "OK", 10),
        ("us", "gone", "ERR", "STOP", 400),
        ("us", "lost", "ERR", "ERR", 500),
        ("us", "left", "ERR", "STOP", 450),
        ("eu", "mute", None, None, None),
    ],
    columns=["cluster", "group", "status", "worst_status", "lag"],
).astype({"lag": "Int64"})


def report(groups: pd.DataFrame) -> FleetReport:
    """Return a report of groups whose offsets are all in range."""
    filled = groups.assign(
        status_why="because", time_lag_s=134_722.36, lost=0, unknown_lag_partitions=0
    )
    none = pd.DataFrame({"position": pd.Series([], dtype="str")})
    frames = FleetFrames(none, filled, pd.DataFrame(), pd.DataFrame(), pd.DataFrame())
    now = datetime(2026, 3, 1, tzinfo=UTC)
    where = "/etc/my fleet.yaml"
    return FleetReport(("eu", "us"), now, frames, fleet_file=where, open_steps=open_or_show)


def test_a_history_that_cannot_be_read_costs_no_other_chart(shown: Any) -> None:
    """The rest of the report is there, and what went wrong."""

    def fail(_: pd.DataFrame) -> pd.DataFrame:
        raise StateFileError("reading the history: damaged")

    columns = ["topic", "lag", "time_lag_s"]
    whole = report(GROUPS.assign(type="", state="", trend="", partitions=1, next_expiry_at=None))
    frames = whole.frames._replace(partitions=pd.DataFrame(columns=columns))
    replace(whole, frames=frames, read_history=fail).show_lag()

    told, table = (output["data"]["text/plain"] for output in shown[-2:])
    assert "reading the history: damaged" in told.lower()
    assert "slow" in table


def test_unhealthy_groups_are_listed_by_severity_then_by_lag() -> None:
    """ERR comes before WARN however large the lag, and an unknown status last."""
    assert ["left", "gone", "lost", "slow", "mute"] == list(report(GROUPS).unhealthy["group"])


def test_one_is_not_called_several() -> None:
    """A fleet of one cluster with one group has one of each."""
    one = replace(report(GROUPS[:1]), clusters=("eu",))

    assert one.summary.startswith("1 cluster, 1 group with commits, lag 9,000, 0 lost records; ")
    assert "; 1 unhealthy or unknown group, 0 out-of-range offsets, " in one.summary


def test_the_conclusion_names_the_worst_groups_and_the_next_step(shown: Any) -> None:
    """As bad as the worst group, which the command diagnoses; of a healthy fleet there is none."""
    report(GROUPS).conclude()
    command = (
        "offsetbook run 90_troubleshoot_group -p cluster=us -p groups=left "
        "-p 'fleet_file=/etc/my fleet.yaml'"
    )

    assert {ROLE_KEY: "headline", TONE_KEY: "bad"} == shown[-1]["metadata"]
    assert shown.html.index("left") < shown.html.index("slow")
    assert "1 d 13 h" in shown.html
    assert command in shown.text

    assert None is report(GROUPS[GROUPS["status"] == "OK"]).conclude()

    assert {ROLE_KEY: "headline", TONE_KEY: "good"} == shown[-1]["metadata"]
    assert "" == shown.html


def test_in_jupyterlab_buttons_lead_on(shown: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for each of the worst groups, in their order."""
    monkeypatch.delenv(HEADLESS_VARIABLE)
    buttons = report(GROUPS).conclude()

    assert shown
    assert ["left", "gone", "lost", "slow", "mute"] == [
        step.button.split()[1] for step in buttons.steps
    ]
