"""What was chosen in a cell, for when the cell runs again: Run All re-creates every picker."""

from __future__ import annotations

from collections.abc import Collection, Hashable

from toolkit.report.display import running_cell

_CHOSEN: dict[tuple[str, Hashable], tuple[str, ...]] = {}


class LastChoice:
    """The names that were chosen in the cell that runs, about one thing; of this kernel alone."""

    def __init__(self, about: Hashable) -> None:
        """Take what the choice is about: the same names of another cluster are another choice."""
        cell, _ = running_cell()
        self._key = (cell, about) if cell else None

    def among(self, names: Collection[str]) -> tuple[str, ...]:
        """Return those of the names that were chosen when the cell ran before."""
        chosen = _CHOSEN.get(self._key, ()) if self._key else ()
        return tuple(name for name in chosen if name in names)

    def keep(self, names: Collection[str]) -> None:
        if self._key:
            _CHOSEN[self._key] = tuple(names)
