"""How something is put on the page, and how the report recognises it there."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from typing import Any

from toolkit.report.safe_names import visible_lines

HEADLESS_VARIABLE = "OFFSETBOOK_HEADLESS"  # set by the runner: no animations
ROLE_KEY, TONE_KEY = "offsetbook_role", "offsetbook_tone"  # in an output's metadata

# JupyterLab would typeset a name such as $\href{https://example.invalid/}{payments}$ as
# mathematics, and show a link "payments". The class is MathJax's, for what it leaves as it is.
AS_IT_IS = "mathjax_ignore"

# JupyterLab makes an output its own some moments after it is there. In a page that is loaded again
# later nothing happens.
_ON_PAGE = """<script>(async () => {
  for (let turn = 0; turn < 50 && Math.abs(Date.now() - NOW) < 60000; turn++) {
    const here = document.getElementById("NAME");
    STEPS
    await new Promise((go) => setTimeout(go, 100));
  }
})()</script>"""


class OutputRole(StrEnum):
    """What an output is for, where the report treats it in its own way."""

    PROBLEMS = "problems"  # shown at the top of the report
    HEADLINE = "headline"  # the worst findings: above everything else, and the report's colour
    LIVE_ONLY = "live-only"  # scripts that only JupyterLab needs; left out of the report


# Outputs that `capture_outputs` collects, for its caller to show elsewhere.
_collected: ContextVar[list[dict[str, Any]] | None] = ContextVar("collected", default=None)


def is_headless() -> bool:
    """Whether output is for a report only: no scripts, no widgets."""
    return _collected.get() is not None or bool(os.environ.get(HEADLESS_VARIABLE))


@contextmanager
def capture_outputs() -> Iterator[list[dict[str, Any]]]:
    taken: list[dict[str, Any]] = []
    before = _collected.set(taken)
    try:
        yield taken
    finally:
        _collected.reset(before)


def show_frames_letter_by_letter() -> None:
    """Have frames that a cell of this notebook shows not be typeset: pandas' own class is old."""
    if shell := running_shell():
        html = shell.display_formatter.formatters["text/html"]
        for module in ("pandas.core.frame", "pandas"):  # pandas 2, pandas 3
            html.for_type_by_name(module, "DataFrame", _frame_html)


def _frame_html(frame: Any) -> str | None:
    html: str | None = frame._repr_html_()
    return html and letter_by_letter(html)


def letter_by_letter(html: str) -> str:
    """Return HTML for an output of JupyterLab that is not typeset there."""
    return f'<div class="{AS_IT_IS}">{html}</div>'


def display_output(
    data: dict[str, Any],
    *,
    role: OutputRole | None = None,
    tone: str = "",
    display_id: str = "",
    is_update: bool = False,
) -> None:
    """
    Display one object, given in the formats that a frontend may choose from.

    An output with a `display_id` can be replaced in place, by a later call with `is_update`.
    """
    if text := data.get("text/plain"):
        # A notebook in a terminal, or its log, would obey control characters in a name.
        data = {**data, "text/plain": visible_lines(text)}
    if (taken := _collected.get()) is not None:
        taken.append(data)
        return
    if html := data.get("text/html"):
        data = {**data, "text/html": letter_by_letter(html)}
    # Slow to import, and only notebooks come here.
    from IPython.display import display  # noqa: PLC0415

    metadata = {ROLE_KEY: str(role)} if role else {}
    metadata |= {TONE_KEY: str(tone)} if tone else {}
    options: dict[str, Any] = {"metadata": metadata}
    if display_id:
        options |= {"display_id": display_id, "update": is_update}
    display(data, raw=True, **options)  # type: ignore[no-untyped-call]  # IPython leaves it untyped


def show_looks(html: str) -> None:
    """Display styles and scripts that only JupyterLab needs: a report has its own."""
    if not is_headless():
        display_output({"text/html": html, "text/plain": ""}, role=OutputRole.LIVE_ONLY)


def page_script(name: str, steps: str) -> str:
    """Return a script that tries for 5 s, until its steps return; `here` is the element `name`."""
    now = str(int(time.time() * 1000))
    return _ON_PAGE.replace("NOW", now).replace("NAME", name).replace("STEPS", steps)


def display_widget(widget: object) -> None:
    from IPython.display import display  # noqa: PLC0415 - as above

    display(widget)  # type: ignore[no-untyped-call]  # IPython leaves it untyped


def running_shell() -> Any:
    """Return the shell of this kernel; None outside of notebooks, where IPython is not loaded."""
    jupyter = sys.modules.get("IPython")
    return jupyter.get_ipython() if jupyter else None


def running_cell() -> tuple[str, str]:
    """Return the id of the cell that runs in this kernel, and that of its run; "" if unknown."""
    request: dict[str, Any] = getattr(running_shell(), "get_parent", dict)()
    cell = request.get("metadata", {}).get("cellId", "")
    return str(cell), str(request.get("header", {}).get("msg_id", ""))
