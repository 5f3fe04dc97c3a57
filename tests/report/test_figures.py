from typing import Any

import plotly.graph_objects as go
import pytest

from toolkit.report.figures import show_figure
from toolkit.report.safe_names import plain

HOSTILE = "<a href='http://evil.invalid'>orders</a>"
ESCAPED = "&lt;a href='http://evil.invalid'&gt;orders&lt;/a&gt;"


def test_names_in_data_are_text(shown: Any) -> None:
    """Texts in the data of a figure hold no tag, at whatever depth, with or without `plain`."""
    figure = go.Figure(
        go.Bar(x=[1, 2], y=[HOSTILE, plain(HOSTILE)], name=HOSTILE, customdata=[[HOSTILE], [""]])
    )

    show_figure(figure)

    trace = shown.figure["data"][0]
    assert trace["y"] == [ESCAPED, ESCAPED]
    assert trace["name"] == ESCAPED
    assert trace["customdata"][0] == [ESCAPED]


def test_titles_keep_emphasis_and_lose_links(shown: Any) -> None:
    """An author's bold and line breaks stay; a link in a title or hover text does not."""
    figure = go.Figure(go.Bar(x=[1], hovertemplate=f"<b>%{{x}}</b>{HOSTILE}<extra></extra>"))
    figure.update_layout(title=f"<b>Lag</b><br>{HOSTILE}")

    show_figure(figure)

    assert shown.figure["layout"]["title"]["text"].startswith("<b>Lag</b><br>&lt;a href")
    hover = shown.figure["data"][0]["hovertemplate"]
    assert hover.startswith("<b>%{x}</b>&lt;a href")
    assert hover.endswith("<extra></extra>")


def test_a_long_name_leaves_room_for_the_bars(shown: Any) -> None:
    """Its tick has its begin and its end; the data, which the hover text shows, all of it."""
    names = [f"{'g' * 300} · eu", "orders · us", "&lt;" * 60, "&lt;" * 61]

    show_figure(go.Figure(go.Bar(x=[1, 2, 3, 4], y=names, orientation="h")))

    axis = shown.figure["layout"]["yaxis"]
    assert (names, names) == (shown.figure["data"][0]["y"], axis["tickvals"])
    short = [f"{'g' * 44}…{'g' * 10} · eu", *names[1:3], f"{'&lt;' * 44}…{'&lt;' * 15}"]
    assert short == axis["ticktext"]
    assert "xaxis" not in shown.figure["layout"]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("orders", "orders"),
        ("a&b", "a&b"),
        ("a&lt;b", "a&amp;lt;b"),
        ("<b>", "&lt;b&gt;"),
        ("a\nb", "a\\nb"),
    ],
)
def test_plain(name: str, label: str) -> None:
    """A label shows a name exactly: what plotly would read as mark-up or entity is escaped."""
    assert plain(name) == label


def test_every_figure(shown: Any) -> None:
    """The report's style unless the author sets one; type and title as text; no mathematics."""
    bar = go.Bar(x=[1], y=["${app}-${env}"])
    show_figure(go.Figure(bar, layout={"height": 200, "title": {"text": "Lag by group"}}))

    layout = shown.figure["layout"]
    assert layout["height"] == 200
    assert layout["template"]["layout"]["colorway"][0] == "#0072b2"
    assert shown.text == "Chart (bar): Lag by group"
    assert {"typesetMath": False} == shown.figure["config"]
