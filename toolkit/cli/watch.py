"""Repeat a reading until Ctrl-C: drawn over the last one on a terminal, appended anywhere else."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from math import ceil
from queue import Empty, SimpleQueue

import click

from toolkit.cli.output import printable, table_on, without_colour, write_data, write_rows
from toolkit.cli.terminal_table import Screen, wrapped
from toolkit.model.rows import Rows
from toolkit.model.times import format_duration

HOME, END_OF_LINE, END_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
NOTES_SHARE = 3  # of the screen, one part in so many is the most that messages take


@dataclass(frozen=True)
class WatchedReading:
    """What is shown at once: rows, None where nothing could be read, and messages about them."""

    taken_at: datetime
    table: Rows | None
    notes: Sequence[str]


def watch(
    read: Callable[[], WatchedReading],
    interval_s: float,
    display: RedrawnTable | AppendedReadings,
) -> None:
    """
    Show a reading every `interval_s` seconds until Ctrl-C, which is the way to end it.

    A reading is due at a multiple of the interval from the first one; one that takes longer skips
    those it misses.
    """
    with _resizes() as resized, suppress(KeyboardInterrupt):
        due = time.monotonic()
        while True:
            display.show(read())
            due = next_due(due, time.monotonic(), interval_s)
            while _is_resized(resized, until=due):
                display.resize()


def next_due(due: float, now: float, interval_s: float) -> float:
    """Return when the next reading is due after the one of `due`: no drift, nothing in the past."""
    return due + interval_s * max(1, ceil((now - due) / interval_s))


@contextmanager
def _resizes() -> Iterator[SimpleQueue[None]]:
    """Yield a queue with an entry for each change of the terminal's size."""
    resized: SimpleQueue[None] = SimpleQueue()  # may be put into by a signal handler
    before = signal.signal(signal.SIGWINCH, lambda *_: resized.put(None))
    try:
        yield resized
    finally:
        signal.signal(signal.SIGWINCH, before)


def _is_resized(resized: SimpleQueue[None], *, until: float) -> bool:
    """Wait for a change of size; False once it is time for the next reading."""
    with suppress(Empty):
        resized.get(timeout=max(0.0, until - time.monotonic()))
        return True
    return False


def display_for(
    output: str, interval_s: float, important: Sequence[str]
) -> RedrawnTable | AppendedReadings:
    """Return the display for an output format on what stdout is."""
    if output == "table" and sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        return RedrawnTable(interval_s, important)
    return AppendedReadings(output, important)


class RedrawnTable:
    """The last table on a terminal, drawn from its first line; it stays when the watch ends."""

    def __init__(self, interval_s: float, important: Sequence[str]) -> None:
        """`important`: see `write_rows`."""
        self._every = format_duration(interval_s)
        self._important = important
        self._last: WatchedReading | None = None
        self._failed_at: datetime | None = None

    def show(self, reading: WatchedReading) -> None:
        """Draw a reading; where nothing could be read the table before it stays, and its time."""
        if self._last is None:  # the screen moves to the scrollback
            click.echo("\n" * Screen.current().height, nl=False)
        failed, last = reading.table is None, self._last
        self._failed_at = reading.taken_at if failed else None
        if failed and last:
            self._last = replace(last, notes=reading.notes)
        else:
            rows = reading.table and Rows(reading.table.columns, list(reading.table.rows))
            self._last = replace(reading, table=rows)
        self.resize()

    def resize(self) -> None:
        """Show the last reading again: the terminal has another size."""
        if self._last:
            screen = Screen.current(has_colours=not without_colour())
            lines = list(self._lines(self._last, screen))[: screen.height - 1]
            text = "".join(f"{line}{END_OF_LINE}\n" for line in lines)
            click.echo(f"{HOME}{text}{END_OF_SCREEN}", nl=False, color=True)

    def _lines(self, reading: WatchedReading, screen: Screen) -> Iterator[str]:
        heading = wrapped(self._heading(reading), screen.width)
        notes = [line for note in reading.notes for line in wrapped(printable(note), screen.width)]
        most = max(1, screen.height // NOTES_SHARE)
        if len(notes) > most:
            notes = [*notes[: most - 1], f"and {len(notes) - most + 1:,} more lines of messages"]
        yield from heading
        if reading.table:
            left = screen.height - len(heading) - len(notes)
            shown = table_on(screen._replace(height=left), reading.table, important=self._important)
            yield from (*shown.header, *shown.rows)
            yield from wrapped(shown.not_shown, screen.width) if shown.not_shown else ()
        yield from notes

    def _heading(self, reading: WatchedReading) -> str:
        if self._failed_at and reading.table:
            failed, read = (f"{at:%H:%M:%S} UTC" for at in (self._failed_at, reading.taken_at))
            return f"Could not read anything at {failed}; this is from {read}. Ctrl-C ends."
        at = f"{reading.taken_at:%Y-%m-%d %H:%M:%S} UTC"
        return f"{at}, every {self._every}. Ctrl-C ends."


class AppendedReadings:
    """Consecutive readings: CSV under one heading, or a JSON array or a table for each."""

    def __init__(self, output: str, important: Sequence[str]) -> None:
        """`important`: see `write_rows`."""
        self._output, self._important = output, important
        self._has_heading = False

    def show(self, reading: WatchedReading) -> None:
        if reading.table:
            self._write(reading.taken_at, reading.table)
        for note in reading.notes:
            click.echo(printable(note), err=True)

    def resize(self) -> None:
        """Keep the text."""

    def _write(self, taken_at: datetime, table: Rows) -> None:
        if self._output == "table":
            between = "\n" if self._has_heading else ""
            click.echo(f"{between}{taken_at:%Y-%m-%d %H:%M:%S} UTC")
            write_rows(table, "table", important=self._important)
        else:
            timed = Rows(
                {"taken_at": "time", **table.columns}, ((taken_at, *row) for row in table.rows)
            )
            write_data(timed, self._output, with_heading=not self._has_heading)
        self._has_heading = True
