"""Figures of what is chosen, without a browser."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import numpy as np
import pandas as pd
import pytest

from widgets.charts import Chart, lag_chart

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


def bars(chart: Chart) -> list[list[int]]:
    """Return the lengths of the bars that are drawn."""
    (put,) = chart.output.outputs
    data: list[dict[str, Any]] = put["data"].get(PLOTLY, {"data": []})["data"]
    packed = [trace["x"] for trace in data]  # as plotly sends numbers
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
    assert "Lag of the 1 groups" in bundle["text/plain"]
