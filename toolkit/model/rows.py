"""Plain rows for display and files: no frame, and no more memory than needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import chain
from typing import Any, Literal

Kind = Literal["name", "text", "number", "change", "duration", "time"]  # change: with its sign
NAME: Kind = "name"  # of a group, which may be empty
WORDS = frozenset({"name", "text"})
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """
    Named columns with what each holds, and rows, which may be made while they are read: once.

    A cell is a str, int, float, bool, aware datetime or None. Truth values are in text columns.
    """

    columns: Mapping[str, Kind]
    rows: Iterable[Row]

    def as_dicts(self) -> Iterator[dict[str, Any]]:
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)


def largest_first(rows: Iterable[Row], place: int) -> list[Row]:
    """Return rows by a column of numbers, largest first and None last."""
    return sorted(rows, key=_by_size(place))


def _by_size(place: int) -> Callable[[Row], tuple[bool, int]]:
    return lambda row: (row[place] is None, -(row[place] or 0))


def concatenated(tables: Sequence[Rows], *, most: str = "") -> Rows:
    """
    Return tables of the same columns as one; at least one is needed.

    `most` names the column of numbers by which each is ordered, largest first and None last, so
    that the whole is.
    """
    columns = tables[0].columns
    if not most:
        return Rows(columns, chain.from_iterable(table.rows for table in tables))
    rank = _by_size(list(columns).index(most))
    return Rows(columns, merge(*(table.rows for table in tables), key=rank))


def in_columns(table: Rows) -> Iterator[tuple[str, Kind, Sequence[Any]]]:
    """Yield the columns of a table: name, kind and cells."""
    rows = table.rows if isinstance(table.rows, Sequence) else list(table.rows)
    cells: Iterable[Sequence[Any]] = zip(*rows, strict=True) if rows else ((),) * len(table.columns)
    for (name, kind), column in zip(table.columns.items(), cells, strict=True):
        yield name, kind, column
