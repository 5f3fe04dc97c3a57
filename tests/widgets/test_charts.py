"""Figures of what is chosen, without a browser."""

from __future__ import annotations

import json
from base64 import b64decode
from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest
from expiry_facts import CLASSIC, EMPTY, KIP848, READS, T0, frame

from toolkit.planning.expiry.expiry_forecast import ExpiryForecast, select_expiring
from toolkit.planning.expiry.with_expiry import with_expiry
from widgets.charts import Chart, expiry_timeline, lag_chart

HOSTILE = "<img src=x onerror=alert(1)>"
PLOTLY = "application/vnd.plotly.v1+json"
LAGS = pd.DataFrame(
    {
        "cluster": ["eu", "eu", "us"],
        "group": ["payments", "payments", HOSTILE],
        "topic": ["orders", "refunds", "orders"],
        "lag": pd.array([10, 5, None], "Int64"),
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
HOUR_S = 3600
NOW = T0 + timedelta(hours=1)
SHORT = {"retention_s": 24 * HOUR_S, "check_interval_s": 600}


def forecast(*rows: dict[str, Any]) -> ExpiryForecast:
    """Return what vanishes of some offsets within two days, and what is at risk."""
    numbered = [{"partition": number, **SHORT, **row} for number, row in enumerate(rows)]
    judged = with_expiry(frame(*numbered), now=NOW)
    return select_expiring(judged, now=NOW, within_s=48 * HOUR_S)


def drawn(chart: Chart) -> dict[str, Any]:
    """Return the figure that is drawn; nothing where words stand in its place."""
    (put,) = chart.output.outputs
    found: dict[str, Any] = put["data"].get(PLOTLY, {})
    return found


def bars(chart: Chart) -> list[list[int]]:
    """Return the lengths of the bars that are drawn."""
    packed = [trace["x"] for trace in drawn(chart).get("data", [])]  # as plotly sends numbers
    return [[*np.frombuffer(b64decode(x["bdata"]), x["dtype"])] for x in packed]


def test_a_topic_is_chosen() -> None:
    """Everything is drawn until a topic is chosen, and then that one; unknown lag is no bar."""
    chart = lag_chart(LAGS)
    assert chart.view
    assert [[15]] == bars(chart)
    chart.choice.set_state({"value": "refunds"})
    assert [[5]] == bars(chart)
    chart.choice.value = HOSTILE
    assert [] == bars(chart)
    assert "<img" not in json.dumps(chart.output.outputs)
    assert chart.error is None


def test_a_report_draws_the_figure_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Headless there is the figure and what it shows in words, and no widget."""
    monkeypatch.setenv("OFFSETBOOK_HEADLESS", "1")
    bundle = lag_chart(LAGS)._repr_mimebundle_()
    assert {PLOTLY, "text/html", "text/plain"} == set(bundle)
    assert "Groups with the largest lag (top 1)" in bundle["text/plain"]


def test_a_group_without_a_name_can_be_chosen() -> None:
    """An empty choice means everything, so the empty name stands in quotes."""
    found = forecast({"group": "", **EMPTY}, {"group": "b", **EMPTY})
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


def test_a_bar_a_partition_of_one_group() -> None:
    """The most behind is on top, equals in their order, each with its number and who reads it."""
    chart = lag_chart(PARTITIONS)
    assert chart.view
    figure = drawn(chart)
    assert [[1234], [7, 7]] == bars(chart)
    assert ["orders:1", "orders:0", "&lt;img src=x onerror=alert(1)&gt;:0"] == [
        *figure["layout"]["yaxis"]["categoryarray"]
    ]
    assert [["1,234"], ["7", "7"]] == [trace["text"] for trace in figure["data"]]
    assert ["&lt;img src=x onerror=alert(1)&gt;", "no owner"] == [*figure["data"][1]["customdata"]]
    title = figure["layout"]["title"]["text"]
    assert "Lag by partition; 1 unknown" == title
    assert "<img" not in json.dumps(chart.output.outputs)


def test_there_is_no_choice_where_there_is_one_topic() -> None:
    """A figure of one topic stands alone, and so do the words where nothing waits."""
    one = lag_chart(PARTITIONS[PARTITIONS["topic"] == "orders"])
    assert one.choice not in one.view.children
    several = lag_chart(PARTITIONS)
    assert several.choice in several.view.children
    nothing = lag_chart(PARTITIONS.assign(lag=pd.array([0, 0, 0, None], "Int64")))
    assert nothing.view
    assert "No known lag." in json.dumps(nothing.output.outputs)


def test_when_the_offsets_of_one_group_expire() -> None:
    """All groups are on the timeline, and then the one that is chosen, with what is at risk."""
    found = forecast(
        {"group": HOSTILE, **CLASSIC, **EMPTY, "empty_since": 2 * HOUR_S},
        {"group": "left", **CLASSIC, **EMPTY, "empty_since": HOUR_S},
        {"group": "live", **KIP848, **READS, "committed_at": 0},
    )
    chart = expiry_timeline(found, now=NOW)
    assert chart.view
    labels = ["live · eu", "left · eu", "&lt;img src=x onerror=alert(1)&gt; · eu"]
    assert labels == drawn(chart)["layout"]["yaxis"]["categoryarray"]

    chart.choice.set_state({"value": HOSTILE})
    assert labels[2:] == drawn(chart)["layout"]["yaxis"]["categoryarray"]
    chart.choice.value = "live"
    assert ["expires if the group stops now"] == [t["name"] for t in drawn(chart)["data"]]
    chart.choice.value = "nobody"
    assert {} == drawn(chart)
    assert "nobody: No committed offset expires" in json.dumps(chart.output.outputs)
    chart.choice.value = ""
    assert labels == drawn(chart)["layout"]["yaxis"]["categoryarray"]
    assert "<img" not in json.dumps(chart.output.outputs)
    assert chart.error is None


def test_nothing_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing expires a report says so in words, and draws no empty figure."""
    monkeypatch.setenv("OFFSETBOOK_HEADLESS", "1")
    found = forecast({"group": "kept", **CLASSIC, **READS})
    bundle = expiry_timeline(found, now=NOW)._repr_mimebundle_()
    assert {"text/html", "text/plain"} == set(bundle)
    assert "No committed offset expires within the forecast period." in bundle["text/html"]


def test_a_report_draws_the_timeline_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Headless the timeline is the figure that a report draws, and no widget."""
    monkeypatch.setenv("OFFSETBOOK_HEADLESS", "1")
    found = forecast({"group": HOSTILE, **CLASSIC, **EMPTY, "empty_since": HOUR_S})
    bundle = expiry_timeline(found, now=NOW)._repr_mimebundle_()
    assert {PLOTLY, "text/html", "text/plain"} == set(bundle)
    assert "Expiry timeline" in bundle["text/plain"]
    assert "<img" not in json.dumps(bundle)
