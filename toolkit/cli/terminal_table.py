"""
Rows as tables of text: unlimited for files and pipes, fitted to the screen of a terminal.

On a terminal, columns are left out before a word is broken, the least important first, and what is
left out is stated. Widths are measured once for each distinct value of a column.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Any, NamedTuple

import click

from toolkit.model.names import MISSING
from toolkit.model.rows import WORDS, Kind, Rows, in_columns
from toolkit.report.cell_text import cell_texts, heading
from toolkit.report.figures import BAD, CAUTION, GOOD, PAUSED, UNUSED, status_colour

GAP = "  "
# Characters: what is longer than a phrase may be wrapped, a sentence not as narrow as a phrase; a
# longer name is wrapped after its separators.
PHRASE, SENTENCE, NAME = 20, 24, 32
LINES_BELOW = 4  # for messages after the table, and for the prompt
AFTER_SEPARATORS = re.compile(r"[^._:/,;=-]*[._:/,;=-]+|[^._:/,;=-]+")


# Columns of status words, and how a terminal paints them: its own 8 colours fit its background. An
# unknown status keeps the colour of text, as grey would hide it.
OF_STATUS = frozenset({"status", "worst_status", "health", "hold_status", "position"})
PAINTS = {GOOD: "green", CAUTION: "yellow", BAD: "red", UNUSED: "magenta", PAUSED: "cyan"}


class Screen(NamedTuple):
    """Columns and lines of a terminal, and whether it shows colours."""

    width: int
    height: int
    has_colours: bool = False

    @classmethod
    def current(cls, *, has_colours: bool = False) -> Screen:
        return cls(*shutil.get_terminal_size(), has_colours)


@dataclass(frozen=True)
class TerminalTable:
    """The header and rows as lines, and what a screen has no room for."""

    header: list[str]
    rows: list[str]
    omitted_columns: list[str]
    omitted_rows: int

    @property
    def not_shown(self) -> str:
        """What is not shown; empty if everything is."""
        parts = [f"{self.omitted_rows:,} more rows"] if self.omitted_rows else []
        if self.omitted_columns:
            plural = "s" if len(self.omitted_columns) > 1 else ""
            parts.append(f"column{plural} {', '.join(self.omitted_columns)}")
        return f"not shown: {'; '.join(parts)}" if parts else ""

    @property
    def omitted(self) -> str:
        """What is not shown and how to see it; empty if everything is shown."""
        wider = ", or use a wider terminal" if self.omitted_columns else ""
        way = f"To see everything, add '| less -S' or --output csv{wider}"
        return f"{self.not_shown}. {way}" if self.not_shown else ""


@dataclass
class _Column:
    name: str
    is_right: bool
    may_wrap: bool
    cells: list[str]
    widths: dict[str, int]
    is_painted: bool
    width: int = 0

    @property
    def is_blank(self) -> bool:
        return self.widths.keys() <= {MISSING}

    @property
    def padded(self) -> list[str]:
        known = {text: _padded(text, self, self.paint(text)) for text in self.widths}
        return [known[text] for text in self.cells]

    def paint(self, text: str) -> str | None:
        """Return the colour of a cell; None: that of text."""
        return PAINTS.get(status_colour(text) or "") if self.is_painted else None

    @property
    def whole(self) -> int:
        """The width with unbroken cells, and a heading that may be wrapped."""
        parts = map(len, _heading_parts(self.name))
        return max(*self.widths.values(), *parts) if self.widths else max(parts)

    @property
    def natural(self) -> int:
        """The width without any wrapping."""
        return max(self.whole, len(self.name))

    @property
    def narrow(self) -> int:
        """The smallest width at which the column is readable and no word is broken."""
        if not self.may_wrap or self.whole <= PHRASE:
            return self.whole
        longest = max(_width(part) for text in self.widths for part in _unbreakable(text))
        return min(self.whole, max(longest, PHRASE if self.whole <= NAME else SENTENCE))


def terminal_table(
    table: Rows,
    clean: Callable[[str], str],
    *,
    screen: Screen | None = None,
    important: Sequence[str] = (),
    is_whole: bool = False,
) -> TerminalTable:
    """
    Return rows as a table; for a screen, as far as they fit there.

    `clean` makes a text safe to print. `important` names columns in the order in which they get
    room; all others come after them, in their own order. With `is_whole`, no row is cut.
    """
    has_colours = screen is not None and screen.has_colours
    lines = None if screen is None or is_whole else max(screen.height - LINES_BELOW, 1)
    source = iter(table.rows)
    head = list(islice(source, lines))
    columns = [
        _column(name, kind, cells, clean, is_painted=has_colours and name in OF_STATUS)
        for name, kind, cells in in_columns(Rows(table.columns, head))
    ]
    _fit(_by_importance(table.columns, columns, important), screen.width if screen else None)
    shown = [column for column in columns if column.width]
    header = list(_block([column.name for column in shown], shown, _heading_lines))
    rows: list[str] = []
    count = 0
    for block in _rows(shown):
        if rows and lines and len(header) + len(rows) + len(block) > lines:
            break
        rows += block
        count += 1
    omitted = [column.name for column in columns if not column.width] if rows else []
    return TerminalTable(header, rows, omitted, len(head) - count + sum(1 for _ in source))


def _column(
    name: object,
    kind: Kind,
    values: Sequence[Any],
    clean: Callable[[str], str],
    *,
    is_painted: bool,
) -> _Column:
    texts = cell_texts(values, kind)
    if kind == "time":
        texts = [text.replace(" UTC", "Z") for text in texts]
    safe = {text: clean(text) for text in set(texts)}
    cells = [safe[text] for text in texts]
    widths = {text: _width(text) for text in safe.values()}
    is_right = kind in {"number", "change", "duration"}
    title = clean(heading(name, kind))
    return _Column(title, is_right, kind in WORDS, cells, widths, is_painted)


def _by_importance(
    names: Iterable[object], columns: Sequence[_Column], important: Sequence[str]
) -> list[_Column]:
    """Return the important columns, then the others, and at last those without any value."""
    order = {name: place for place, name in enumerate(dict.fromkeys([*important, *names]))}
    ranked = [
        (column.is_blank, order[name], column) for name, column in zip(names, columns, strict=True)
    ]
    return [column for *_, column in sorted(ranked, key=lambda entry: entry[:2])]


def _fit(columns: Sequence[_Column], width: int | None) -> None:
    """Give columns their width, the most important first; one without room keeps 0."""
    if width is None:
        for column in columns:
            column.width = column.natural
        return
    left = width + len(GAP)
    for column in columns:
        needed = column.narrow + len(GAP)
        if needed <= left or column is columns[0]:
            column.width = column.narrow
            left -= needed
    shown = [column for column in columns if column.width]
    sentences = [column for column in shown if column.whole > NAME]
    left = _widen([column for column in shown if column.whole <= NAME], left, "whole")
    lacking = sum(column.whole - column.width for column in sentences)
    if lacking > left > 0:  # each gets its share, so that rows take few lines
        shares = [(column.whole - column.width) * left // lacking for column in sentences]
        for column, share in zip(sentences, shares, strict=True):
            column.width += share
    else:
        # Unbroken cells come before unbroken headings.
        _widen(shown, _widen(sentences, left, "whole"), "natural")


def _widen(columns: Sequence[_Column], left: int, limit: str) -> int:
    """Widen columns in their order up to a limit, and return the rest of the width."""
    for column in columns:
        more = min(getattr(column, limit) - column.width, max(left, 0))
        column.width += more
        left -= more
    return left


def _rows(columns: Sequence[_Column]) -> Iterator[list[str]]:
    texts = zip(*(column.cells for column in columns), strict=True)
    if all(column.whole <= column.width for column in columns):
        padded = (column.padded for column in columns)
        yield from ([GAP.join(row).rstrip()] for row in zip(*padded, strict=True))
    else:
        yield from (list(_block(row, columns, wrapped)) for row in texts)


def _block(
    texts: Sequence[str], columns: Sequence[_Column], wrap: Callable[[str, int], list[str]]
) -> Iterator[str]:
    """Yield the lines of a row, some of whose cells take several."""
    cells = [wrap(text, column.width) for text, column in zip(texts, columns, strict=True)]
    paints = [column.paint(text) for text, column in zip(texts, columns, strict=True)]
    for parts in zip_longest(*cells, fillvalue=""):
        line = map(_padded, parts, columns, paints)
        yield GAP.join(line).rstrip()


def _padded(text: str, column: _Column, paint: str | None) -> str:
    blank = " " * (column.width - _width(text))
    shown = click.style(text, fg=paint) if paint and text else text
    return blank + shown if column.is_right else shown + blank


def _width(text: str) -> int:
    if text.isascii() or text == MISSING:
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def wrapped(text: str, width: int) -> list[str]:
    """Return a text in lines, broken at spaces; words that are too long after separators."""
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if _width(joined) <= width:
            lines[-1] = joined
            continue
        lines += [""] if lines[-1] else []
        for part in [word] if _width(word) <= width else _parts(word, width):
            if _width(lines[-1]) + _width(part) > width:
                lines.append("")
            lines[-1] += part
    return lines


def _heading_lines(text: str, width: int) -> list[str]:
    lines = [""]
    for part in _heading_parts(text):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return lines


def _heading_parts(name: str) -> list[str]:
    return re.findall(r"[^_-]*[_-]+|[^_-]+", name) or [""]


def _unbreakable(text: str) -> Iterator[str]:
    for word in text.split(" "):
        yield from [word] if _width(word) <= NAME else _parts(word, NAME)


def _parts(word: str, width: int) -> Iterator[str]:
    """Yield a long name in parts that end in a separator; only one without any is cut."""
    from rich.cells import chop_cells

    for part in AFTER_SEPARATORS.findall(word):
        yield from [part] if _width(part) <= width else chop_cells(part, width)
