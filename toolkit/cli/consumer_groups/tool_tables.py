"""Tables as the tool writes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click

from toolkit.cli.output import printable
from toolkit.model.names import TOOL_MISSING, shown_name

NAMES = {"GROUP", "TOPIC"}
NARROW = {"PARTITION": 10}
WIDE = {"ASSIGNMENT-STRATEGY": 20, "CURRENT-ASSIGNMENT": 20, "STATE": 20, "COORDINATOR (ID)": 25}
USUAL = 15

Cell = str | int | None


def write_table(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Write columns with two blanks at least between them; None is a dash, as in the tool."""
    cells = [tuple(columns), *(tuple(map(_shown, columns, row)) for row in rows)]
    least = [{**NARROW, **WIDE}.get(column, USUAL) for column in columns]
    widths = [max(w, *(len(row[i]) for row in cells)) for i, w in enumerate(least)]
    lines = (" ".join(map(str.ljust, row, widths)).rstrip() for row in cells)
    click.echo("\n".join(lines))


def _shown(column: str, cell: Cell) -> str:
    if column in NAMES and isinstance(cell, str):
        return printable(shown_name(cell))
    return TOOL_MISSING if cell is None or cell == "" else printable(cell)
