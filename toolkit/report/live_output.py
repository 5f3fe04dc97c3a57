"""Outputs of a notebook that are replaced in place, once there is more to show."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

from toolkit.report.browser_libraries import style
from toolkit.report.display import capture_outputs, display_output, is_headless
from toolkit.report.notices import show_error
from toolkit.report.run_command import copy_script

SORT = '<script type="module">window.offsetbookSortTables?.("");</script>'


class LiveOutputs:
    """Displays of something that may still change, each in its place."""

    def __init__(self) -> None:
        self._shown: dict[str, Callable[[], object]] = {}  # by the name of the output

    def put(self, show: Callable[[], object], *, may_change: bool) -> None:
        """Show something; where it may change and nobody prints it, so that it can be replaced."""
        if not may_change or is_headless():
            show()
            return
        name = uuid4().hex
        _put(name, show, is_update=False)
        self._shown[name] = show

    def replace(self) -> None:
        for name, show in [*self._shown.items()]:
            _put(name, show, is_update=True)


def _put(name: str, show: Callable[[], object], *, is_update: bool) -> None:
    """Show something as one output of this name."""
    with capture_outputs() as taken:
        try:
            show()
        except Exception as exc:
            if not is_update:
                raise
            # What it is replaced for has happened, whatever can be shown of it.
            show_error(exc)
    html = "".join(str(data["text/html"]) for data in taken)
    text = "\n".join(str(data["text/plain"]) for data in taken)
    sheets = f"<style>{style('tables.css', 'notices.css')}</style>"
    looks = f"{sheets}{SORT}{copy_script()}"
    data = {"text/html": html + looks, "text/plain": text}
    display_output(data, display_id=name, is_update=is_update)
