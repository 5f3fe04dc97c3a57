"""Store the executed notebook while papermill runs it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from papermill.iorw import papermill_io

from toolkit.errors import StateFileError
from toolkit.storage.formats.atomic_files import write_whole

_SCHEME = "offsetbook-run:"


class NotebookWriter:
    """
    Where the executed notebook of one run goes, for papermill.

    A full disk must not stop the cell that runs: it may be changing a cluster. So what cannot be
    written is kept, and said at the end. What is written is there whole or not at all.
    """

    def __init__(self, path: Path) -> None:
        """Begin without a notebook."""
        self.path = path
        self.why_not_written = ""
        self._last = ""

    @property
    def cells(self) -> list[dict[str, Any]]:
        """The cells as they were last written, or should have been."""
        cells: list[dict[str, Any]] = json.loads(self._last)["cells"] if self._last else []
        return cells

    @contextmanager
    def registered(self) -> Iterator[str]:
        """Let papermill write here; yields the name by which it does."""
        name = f"{_SCHEME}{self.path}"
        papermill_io.register(name, self)
        try:
            yield name
        finally:
            papermill_io._handlers.remove((name, self))  # noqa: SLF001 - there is no other way back

    def write(self, text: str, name: str) -> None:
        """Write the whole notebook, or remember why that was not possible."""
        self._last = text = text.replace(json.dumps(name), json.dumps(str(self.path)))
        try:
            write_whole(self.path, text, errors="backslashreplace")
            self.why_not_written = ""
        except StateFileError as exc:
            self.why_not_written = f"the executed notebook could not be written: {exc.problem}"

    def pretty_path(self, _name: str) -> str:
        """Return the path as papermill shows it."""
        return str(self.path)
