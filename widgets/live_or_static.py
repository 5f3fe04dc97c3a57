"""
Base class of the widgets: interactive in JupyterLab, static HTML in reports.

A saved notebook has no widget, only the number that it had in its kernel, and JupyterLab shows an
error in its place. So the static form is in the same output, is kept up to date, and is shown when
the kernel of the widget is gone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import ipywidgets
import pandas as pd
from traitlets import HasTraits

from toolkit.report.browser_libraries import style
from toolkit.report.display import (
    ROLE_KEY,
    OutputRole,
    capture_outputs,
    display_output,
    is_headless,
    letter_by_letter,
)
from toolkit.report.notices import NoticeTone, show_error, show_notice
from toolkit.report.run_command import copy_script
from toolkit.report.safe_names import in_html, visible_lines
from toolkit.report.tables import TableColumns, table_bundle, table_columns

__all__ = ["NoticeTone", "error_notice", "in_html", "notice", "sheet", "table"]


@cache
def sheet() -> str:
    """Return the style sheets, on the colours of JupyterLab's theme or of a report."""
    own = (Path(__file__).parent / "widgets.css").read_text("utf-8")
    shared = style("tables.css", "notices.css", "figures.css", "trouble.css")
    return f"<style>{shared}{own}</style>"


def table(
    rows: pd.DataFrame | TableColumns, *, caption: str = "", empty: str = "", is_live: bool = False
) -> str:
    """Return rows as a table, as the reports have it; the rows of a live one stay in order."""
    columns = table_columns(rows) if isinstance(rows, pd.DataFrame) else rows
    html = table_bundle(columns, caption_text=caption, empty_text=empty)["text/html"]
    # The page would sort the painted rows, where a widget sorts all.
    return html.replace("<table ", '<table data-sortable="no" ') if is_live else html


def notice(title: str, lines: Sequence[str] = (), *, tone: NoticeTone = NoticeTone.NOTE) -> str:
    return _shown(lambda: show_notice(title, lines, tone=tone))


def error_notice(error: Exception) -> str:
    return _shown(lambda: show_error(error))


def _shown(show: Callable[[], object]) -> str:
    with capture_outputs() as taken:
        show()
    return str(taken[0]["text/html"])


# JupyterLab takes the arrow keys, and letters such as x (cut this cell), also from a list or a
# button that has the focus; one that bears this attribute gets its keys itself.
OWN_KEYS = """<script type="module">
window.offsetbookOwnKeys ??= document.addEventListener("focusin", ({ target }) => {
  if (target.closest?.(".ow-card")) target.setAttribute("data-lm-suppress-shortcuts", "true");
}) ?? true;
// A list has room for short names and lines only.
window.offsetbookFullNames ??= document.addEventListener("mouseover", ({ target }) => {
  const list = target.matches?.(".ow-list option") && target.closest(".ow-card");
  const full = list && list.querySelector(".ow-names")?.children[target.index];
  if (list) target.title = full ? full.textContent : target.value;
}) ?? true;
// ipywidgets tells by a class alone which toggle buttons are pressed.
window.offsetbookPressed ??= new MutationObserver((changes) => {
  const all = ".widget-toggle-button";
  for (const { target, addedNodes } of changes) {
    for (const node of [target, ...addedNodes].filter((node) => node.matches)) {
      const inside = addedNodes.length ? node.querySelectorAll(all) : [];
      for (const button of node.matches(all) ? [node] : inside) {
        button.setAttribute("aria-pressed", button.classList.contains("mod-active"));
      }
    }
  }
});
window.offsetbookPressed.observe(document.body,
  { subtree: true, childList: true, attributes: true, attributeFilter: ["class"] });
</script>"""


# In metadata: what JupyterLab shows while the kernel lives, and no report.
LIVE_ONLY = {ROLE_KEY: str(OutputRole.LIVE_ONLY)}
NO_LONGER_LIVE = "Saved view: its kernel has ended. Run the cells again to use it."


def without_null_tooltips(widget: ipywidgets.Widget) -> None:
    """Give a widget and its children the tooltip "": the browser shows None as "null"."""
    if getattr(widget, "tooltip", "") is None:
        widget.tooltip = ""
    for child in getattr(widget, "children", ()):
        without_null_tooltips(child)


class LiveOrStatic(HasTraits):
    """
    Something that is shown by its name at the end of a cell.

    `error` is what went wrong last in a callback: ipywidgets would swallow it. The live form is
    built on first access, never in a headless run, which stores no widget state.
    """

    error: Exception | None = None

    @abstractmethod
    def live_form(self) -> tuple[ipywidgets.Widget, ...]:
        """Return the parts of the live form, from top to bottom."""

    @abstractmethod
    def static_html(self) -> str:
        """Return the same for a report: complete, escaped, without scripts."""

    @abstractmethod
    def text_form(self) -> str:
        """Return the same in a line of text."""

    error_box = cached_property(lambda _: ipywidgets.HTML())

    @cached_property
    def view(self) -> ipywidgets.VBox:
        card = ipywidgets.VBox([*self.live_form(), self.error_box])
        card.add_class("ow-card")
        without_null_tooltips(card)
        return card

    def guarded(self, handler: Callable[[], object]) -> Callable[[Any], None]:
        """Wrap a callback so that its errors are shown in the widget and kept in `error`."""

        def callback(_: Any) -> None:
            try:
                handler()
            except Exception as exc:  # noqa: BLE001 - the operator must see every error
                self.show_error(exc)

        return callback

    def show_error(self, error: Exception | None) -> None:
        """Show an error in place, or that there is none any more."""
        self.error = error
        self.error_box.value = error_notice(error) if error else ""

    def stored(self) -> dict[str, Any]:
        """Return the static form as an output of a notebook."""
        return {"text/html": self.static_html(), "text/plain": visible_lines(self.text_form())}

    @cached_property
    def _stored_as(self) -> str:
        """The name by which the output that is stored can be replaced."""
        return uuid4().hex

    def store(self) -> None:
        """Replace the output that is stored by the static form of now, if there is one."""
        if "_stored_as" in vars(self):
            self._put_stored(is_update=True)

    def _put_stored(self, *, is_update: bool = False) -> None:
        data = self.stored()
        if html := data.get("text/html"):
            note = f'<p class="ow-stored-note">{NO_LONGER_LIVE}</p>'
            data["text/html"] = f'<div class="ow-stored">{note}{html}</div>'
        display_output(data, display_id=self._stored_as, is_update=is_update)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any] | tuple[dict[str, Any], dict[str, Any]]:
        if is_headless():
            data = self.stored()
            return {**data, "text/html": letter_by_letter(data["text/html"])}
        self._put_stored()
        # Not in the widget: without it, the saved output still needs the style.
        looks = {"text/html": sheet() + OWN_KEYS + copy_script(), "text/plain": ""}
        display_output(looks, role=OutputRole.LIVE_ONLY)
        return {**(self.view._repr_mimebundle_() or {}), "text/plain": ""}, LIVE_ONLY
