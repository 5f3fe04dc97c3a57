"""
Render Plotly figures for notebooks and offline reports, with names escaped.

The colours of charts and of status words are here: each has one meaning over all of them.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from toolkit.report.browser_libraries import style
from toolkit.report.display import display_output, show_looks
from toolkit.report.safe_names import without_tags

if TYPE_CHECKING:
    import plotly.graph_objects as go

# Okabe and Ito's colours, distinct with every common colour blindness, on light and on dark;
# without their black and yellow, which vanish on one of the two.
GOOD, CAUTION, BAD = "#009e73", "#e69f00", "#d55e00"
UNUSED = "#cc79a7"  # no longer needed: unsubscribed or removed
PAUSED = "#56b4e9"
UNKNOWN = "#7b8794"
# Status words of groups, partitions, checks and changes; what is in no list needs no attention.
STATUS_COLOURS = {
    **dict.fromkeys(("ok", "done"), GOOD),
    **dict.fromkeys(("warn", "behind", "orphaned", "not confirmed", "not tried"), CAUTION),
    **dict.fromkeys(("err", "error", "stop", "stall", "rewind", "stuck", "stopped"), BAD),
    **dict.fromkeys(("lost records", "beyond log end", "refused", "failed"), BAD),
    "unsubscribed": UNUSED,
    "held": PAUSED,
    "unknown": UNKNOWN,
}
# For clusters, topics and groups, which are neither good nor bad.
SERIES = ("#0072b2", "#9c755f", "#7b61c4", "#c2b280")
# More is stronger, on light and on dark: the page shines through where there is little.
SEQUENTIAL = ((0, "rgba(0,114,178,0.12)"), (1, "rgba(0,114,178,1)"))

LONGEST_TICK = 60  # characters; with longer ones plotly leaves 64 px for what is shown

_GREY_ON_BOTH = UNKNOWN
_AT_THE_BOTTOM = {"y": 0, "yref": "container", "yanchor": "bottom"}
_GRID_ON_BOTH = "rgba(128,128,128,0.25)"
# The mark-up that authors use in titles and hover templates; links are not among it.
_UNWANTED_TAG = re.compile(r"<(?!/?(?:b|i|br|em|sub|sup|extra)\s*/?>)", re.IGNORECASE)


def series_colours(names: Iterable[object]) -> dict[str, str]:
    """Return a colour for each name, the same in every chart of the same names."""
    distinct = sorted({str(name) for name in names})
    return {name: SERIES[place % len(SERIES)] for place, name in enumerate(distinct)}


def status_colour(word: object) -> str | None:
    """Return the colour of a status word, in whatever case; None for any other text."""
    return STATUS_COLOURS.get(str(word).lower())


def show_traces(traces: Sequence[Mapping[str, object]], **layout: object) -> None:
    """Show traces, each with its `type`, as one figure; see `show_figure`."""
    import plotly.graph_objects as go  # noqa: PLC0415 - only who sees a chart waits for it

    figure = go.Figure(list(traces))
    figure.update_layout(**layout)
    show_figure(figure)


def show_figure(figure: go.Figure) -> None:
    """
    Show a plotly figure: drawn by JupyterLab itself, and by the report without any network.

    Texts in the data are shown as they are, never as mark-up; titles and hover templates may use
    bold, italics and line breaks. Put names that go into those through `plain`.
    """
    shown = json.loads(figure.to_json())
    shown["data"] = [_without_tags_in_data(trace) for trace in shown["data"]]
    layout = {**_without_links(shown["layout"])}
    for axis in ("x", "y"):
        if ticks := _short_ticks(shown["data"], axis):
            layout[f"{axis}axis"] = {**layout.get(f"{axis}axis", {}), **ticks}
    # The figure's own choices win; plotly's default template is 7 kB of every figure.
    # Where a page has a global MathJax, plotly would typeset a name such as ${app}-${env}.
    shown["config"] = {"typesetMath": False}
    shown["layout"] = {"template": template(), **{k: layout[k] for k in layout if k != "template"}}
    display_output({"application/vnd.plotly.v1+json": shown, "text/plain": describe(shown)})
    show_looks(f"<style>{style('figures.css')}</style>")


def _short_ticks(traces: Sequence[Mapping[str, Any]], axis: str) -> dict[str, object]:
    """Return ticks with short texts where a name would take the room of what is shown, or none."""
    given = [trace[axis] for trace in traces if isinstance(trace.get(axis), list)]
    names = [*dict.fromkeys(name for names in given for name in names if isinstance(name, str))]
    ticks = [*map(_short_tick, names)]
    return {} if ticks == names else {"tickmode": "array", "tickvals": names, "ticktext": ticks}


def _short_tick(name: str) -> str:
    text = html.unescape(name)  # a part of an entity would be shown as it is written
    if len(text) <= LONGEST_TICK:
        return name
    return html.escape(f"{text[: LONGEST_TICK - 16]}…{text[-15:]}", quote=False)


@cache
def template() -> dict[str, Any]:
    """Return the Plotly template: page background, colour-blind-safe palette."""
    axis = {
        "automargin": True,
        "gridcolor": _GRID_ON_BOTH,
        "zerolinecolor": _GRID_ON_BOTH,
        "title": {"standoff": 12},
    }
    return {
        "layout": {
            "colorway": list(SERIES),
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"color": _GREY_ON_BOTH, "family": "system-ui, sans-serif", "size": 13},
            "title": {"x": 0, "xref": "container", "xanchor": "left", "font": {"size": 16}},
            "margin": {"l": 8, "r": 8, "t": 48, "b": 8},
            "legend": {"orientation": "h", "x": 0, **_AT_THE_BOTTOM},
            "hoverlabel": {"align": "left", "namelength": -1},
            "modebar": {
                "bgcolor": "rgba(0,0,0,0)",
                "color": _GREY_ON_BOTH,
                "activecolor": SERIES[0],
            },
            "xaxis": axis,
            "yaxis": axis,
        },
        # Without one, plotly takes its own from blue to red, in which small counts look cold.
        "data": {"heatmap": [{"type": "heatmap", "colorscale": SEQUENTIAL}]},
    }


def describe(figure: dict[str, Any]) -> str:
    """Describe a figure as text, for readers who cannot see it."""
    title = figure.get("layout", {}).get("title") or {}
    text = title.get("text", "") if isinstance(title, dict) else str(title)
    kinds = ", ".join(sorted(kinds_of_traces(figure)))
    return f"Chart ({kinds}): {text}" if text else f"Chart ({kinds})"


def kinds_of_traces(figure: dict[str, Any]) -> set[str]:
    """Return what a figure consists of, such as "bar" and "scatter"."""
    return {str(trace.get("type", "scatter")) for trace in figure.get("data", ())}


def _without_tags_in_data(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {k: _without_tags_in_data(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_without_tags_in_data(item, key) for item in value]
    if isinstance(value, str):
        return _without_links(value) if key.endswith("template") else without_tags(value)
    return value


def _without_links(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_links(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_without_links(item) for item in value]
    return _UNWANTED_TAG.sub("&lt;", value) if isinstance(value, str) else value
