"""
Which columns of a frame a table shows, and in what order: those that are acted on come first.

What names the row comes first, then what became of it or was found, until when, and why; on a
narrow screen everything else may be out of sight. A column without any value is left out, which the
table says; files and data formats have all columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from toolkit.report.cell_text import heading
from toolkit.report.frame_cells import OF_GROUPS, column_kind

if TYPE_CHECKING:
    import pandas as pd

NAMES = frozenset(
    {"severity", "rule", "what", "run", "at", "cluster", "group", "action", "topic", "partition"}
    | {"member"}
)
DECISIVE = ("status", "verdict", "result", "until", "paused_until", "why")
# An empty cell there means something: nothing committed, unknown, or until resumed.
ALWAYS_SHOWN = frozenset({"before", "after", "read_back", "committed", "lag", "paused_until"})


class TableColumns(NamedTuple):
    """A frame as a table shows it: the `leading` columns stay in sight, `empty` ones are gone."""

    frame: pd.DataFrame
    leading: int
    empty: tuple[str, ...]

    @property
    def note(self) -> str:
        """Which columns are left out; "" where none is."""
        return f"Empty columns, left out: {', '.join(self.empty)}." if self.empty else ""


def table_columns(frame: pd.DataFrame) -> TableColumns:
    """Return a frame with the columns that have values, in the order in which they are read."""
    columns = [frame.iloc[:, place] for place in range(frame.shape[1])]
    is_shown = [_has_values(column) for column in columns]
    if not any(is_shown):
        is_shown = [True] * len(columns)
    shown = [place for place in range(len(columns)) if is_shown[place]]
    first = next((n for n, place in enumerate(shown) if frame.columns[place] not in NAMES), None)
    # The first column identifies the rows, whatever its name.
    names = shown[: max(len(shown) if first is None else first, 1)]
    others = [place for place in shown if place not in names]
    decisive = sorted(
        (place for place in others if _word(frame.columns[place]) in DECISIVE),
        key=lambda place: DECISIVE.index(_word(frame.columns[place])),
    )
    leading = names + decisive
    order = leading + [place for place in others if place not in decisive]
    empty = [
        heading(column.name, column_kind(column)).replace("_", " ")
        for column, is_there in zip(columns, is_shown, strict=True)
        if not is_there
    ]
    return TableColumns(frame.iloc[:, order], len(leading), tuple(empty))


def _word(name: object) -> str:
    """Return what a column is about: `status_why` is a why."""
    return "why" if str(name).endswith("_why") else str(name)


def _has_values(column: pd.Series[Any]) -> bool:
    if column.name in ALWAYS_SHOWN:
        return True
    known = column.dropna()
    if column.name == OF_GROUPS:  # a group may have an empty name
        return len(known) > 0
    return any(not (isinstance(value, _WITH_LENGTH) and not value) for value in known)


_WITH_LENGTH = (str, list, tuple, set, frozenset)
