"""
What people look at: tables and figures in a notebook, and the HTML file that a run leaves.

Every name that came from a cluster is shown as text, whatever it holds, and nothing that is shown
asks the network for anything.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolkit.report.figures import show_figure
    from toolkit.report.html_export import write_report
    from toolkit.report.safe_names import plain
    from toolkit.report.tables import show_problems, show_table

__all__ = ["plain", "show_figure", "show_problems", "show_table", "write_report"]

_HOME = {
    "plain": "safe_names",
    "show_figure": "figures",
    "show_problems": "tables",
    "show_table": "tables",
    "write_report": "html_export",
}


def __getattr__(name: str) -> Any:
    # pandas, plotly and nbconvert take a second together; each name brings only its own.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
