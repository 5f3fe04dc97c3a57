"""Figures of what is chosen, without a browser."""

import json
from base64 import b64decode
from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest
from expiry_facts import CLASSIC, EMPTY, HOUR_S, KIP848, READS, T0, forecast_of_days

from widgets.charts import Chart, expiry_timeline, lag_chart

HOSTILE = "<img src=x onerror=alert(1)>"
ESCAPED = "&lt;img src=x onerror=alert(1)&gt;"
PLOTLY = "application/vnd.plotly.v1+json"
LAGS = pd.DataFrame(
    {
        "cluster": ["eu", "eu", "us"],
        "group": ["payments", "payments", HOSTILE],
        "topic": ["orders", "refunds", "orders"],
        "lag": pd.array([10, 5, None], "Int64"),
    }
)
GROUPS = pd.DataFrame(
    {
        "cluster": "eu",
        "group": ["part", "none"],
        "lag": pd.array([5, None], "Int64"),
        "unknown_lag_partitions": [40, 7],
    }
)
PARTITIONS = pd.DataFrame(
    {
        "group": "payments",
        "topic": ["orders", "orders", HOSTILE, "refunds"],
        "partition": [0, 1, 0, 0],
        "lag": pd.array([7, 7, 1_234, None], "Int64"),
        "owner": [HOSTILE, "", "reader @ /10.0.0.1", ""],
    }
)
NOW = T0 + timedelta(hours=1)


def drawn(chart: Chart) -> dict[str, Any]:
    """Return the figure that is drawn; nothing where words stand in its place."""
    (put,) = chart.output.outputs
    found: dict[str, Any] = put["data"].get(PLOTLY, {})
    return found


def bars(chart: Chart) -> list[list[int]]:
    packed = [trace["x"] for trace in drawn(chart).get("data", [])]  # as plotly sends numbers
    return [[*np.frombuffer(b64decode(x["bdata"]), x["dtype"])] for x in packed]


def page(chart: Chart) -> str:
    return json.dumps(chart.output.outputs)


def test_a_topic_is_chosen() -> None:
    """Everything is drawn until a topic is chosen, and then that one; unknown lag is no bar."""
    chart = lag_chart(LAGS)
    assert chart.view
    assert [[15]] == bars(chart)
    chart.choice.set_state({"value": "refunds"})
    assert [[5]] == bars(chart)
    chart.choice.value = HOSTILE
    assert [] == bars(chart)
    assert "<img" not in page(chart)
    assert chart.error is None


KEPT = forecast_of_days({"group": "kept", **CLASSIC, **READS})
LEFT = forecast_of_days({"group": HOSTILE, **CLASSIC, **EMPTY, "empty_since": HOUR_S})
NOTHING_EXPIRES = "No committed offset expires within the forecast period."


@pytest.mark.parametrize(
    ("chart", "figures", "says"),
    [
        (lag_chart(LAGS), {PLOTLY}, "largest lag (top 1); 1 partition unknown"),
        (lag_chart(GROUPS), {PLOTLY}, "largest lag (top 1); 47 partitions unknown"),
        (expiry_timeline(LEFT, now=NOW), {PLOTLY}, "Expiry timeline"),
        # Where nothing expires no empty figure is drawn.
        (expiry_timeline(KEPT, now=NOW), set(), NOTHING_EXPIRES),
    ],
    ids=["lag", "lag of groups", "expiry", "nothing expires"],
)
def test_a_report_draws_the_figure_itself(
    chart: Chart, figures: set[str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Headless there is the figure and what it shows in words, and no widget."""
    monkeypatch.setenv("OFFSETBOOK_HEADLESS", "1")
    bundle = chart._repr_mimebundle_()
    assert {*figures, "text/html", "text/plain"} == set(bundle)
    assert says in bundle["text/plain"] + bundle["text/html"]
    assert "<img" not in json.dumps(bundle)


def test_a_group_without_a_name_can_be_chosen() -> None:
    """An empty choice means everything, so the empty name stands in quotes."""
    found = forecast_of_days({"group": "", **EMPTY}, {"group": "b", **EMPTY})
    chart = expiry_timeline(found, now=NOW)
    assert ['""', "b"] == chart.names

    chart.choice.value = '""'

    assert {'"" · eu'} == {y for trace in drawn(chart)["data"] for y in trace["y"]}


def test_a_name_without_a_figure_is_not_typeset() -> None:
    """The words in place of the figure are an output, which JupyterLab would typeset."""
    name = r"$\href{https://example.invalid/}{payments}$"
    chart = lag_chart(LAGS.assign(topic=["orders", "orders", name]))
    assert chart.view

    chart.choice.value = name

    (put,) = chart.output.outputs
    assert put["data"]["text/html"].startswith('<div class="mathjax_ignore">')


def test_one_bar_for_each_partition_of_a_group() -> None:
    """The largest lag is on top, equals in their order, each with its number and its owner."""
    chart = lag_chart(PARTITIONS)
    assert chart.view
    layout, traces = drawn(chart)["layout"], drawn(chart)["data"]
    assert [[1234], [7, 7]] == bars(chart)
    assert ["orders:1", "orders:0", f"{ESCAPED}:0"] == [*layout["yaxis"]["categoryarray"]]
    assert [["1,234"], ["7", "7"]] == [trace["text"] for trace in traces]
    assert [ESCAPED, "no owner"] == [*traces[1]["customdata"]]
    assert "Lag by partition; 1 unknown" == layout["title"]["text"]
    assert "<img" not in page(chart)


def test_there_is_no_choice_where_there_is_one_topic() -> None:
    """A figure of one topic stands alone, and so do the words where nothing waits."""
    one, several = lag_chart(PARTITIONS[PARTITIONS["topic"] == "orders"]), lag_chart(PARTITIONS)
    nothing = lag_chart(PARTITIONS.assign(lag=pd.array([0, 0, 0, None], "Int64")))
    assert one.choice not in one.view.children
    assert several.choice in several.view.children
    assert nothing.view
    assert "No partition is known to lag." in page(nothing)


def test_when_the_offsets_of_one_group_expire() -> None:
    """All groups are on the timeline, and then the one that is chosen, with what is at risk."""
    found = forecast_of_days(
        {"group": HOSTILE, **CLASSIC, **EMPTY, "empty_since": 2 * HOUR_S},
        {"group": "left", **CLASSIC, **EMPTY, "empty_since": HOUR_S},
        {"group": "live", **KIP848, **READS, "committed_at": 0},
    )
    chart = expiry_timeline(found, now=NOW)
    assert chart.view
    labels = ["live · eu", "left · eu", f"{ESCAPED} · eu"]
    for chosen, expected in (("", labels), (HOSTILE, labels[2:]), ("", labels)):
        chart.choice.set_state({"value": chosen})
        assert expected == drawn(chart)["layout"]["yaxis"]["categoryarray"]

    chart.choice.value = "live"
    assert ["expires if the group stops now"] == [t["name"] for t in drawn(chart)["data"]]
    chart.choice.value = "nobody"
    assert {} == drawn(chart)
    assert "nobody: Not among the 3 groups of this chart." in page(chart)
    chart.choice.value = ""
    assert "<img" not in page(chart)
    assert chart.error is None
