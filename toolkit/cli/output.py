"""Write frames to stdout as a table, JSON or CSV; words go to stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from toolkit.model import NO_SUCH_GROUP

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.model import Snapshot

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a spreadsheet's formulas begin
NOTHING = "–"  # a missing value; never 0, never blank


def write_frames(frames: Sequence[pd.DataFrame], output: str, *, most: str = "") -> None:
    """
    Write frames of the same columns, one a cluster, as one; without any, write nothing.

    `most` names the column whose largest values come first, over all clusters.
    """
    if frames:
        import pandas as pd

        frame = pd.concat(frames, ignore_index=True)
        if most:
            frame = frame.sort_values(most, ascending=False, na_position="last", kind="stable")
        write_frame(frame, output)


def write_frame(frame: pd.DataFrame, output: str) -> None:
    """Write a frame in the chosen form; an empty one gives headings (table, CSV) or [] (JSON)."""
    if output == "json":
        text = frame.to_json(orient="records", date_format="iso", indent=2, force_ascii=False)
        echo_data(f"{text}\n")
    elif output == "csv":
        echo_data(_without_formulas(frame).to_csv(index=False))
    else:
        _write_table(frame)


def _without_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """Put an apostrophe before text that a spreadsheet would execute."""

    def quoted(cell: object) -> object:
        return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell

    return frame.assign(
        **{str(n): frame[n].map(quoted) for n in frame.select_dtypes(["object", "string"])}
    )


def write_problems(snapshots: Iterable[Snapshot]) -> None:
    """Say on stderr what could not be read, one line each; a missing group was said before."""
    for snapshot in snapshots:
        for problem in snapshot.problems:
            if problem.what == NO_SUCH_GROUP:
                continue
            subject = [f"cluster {snapshot.cluster}"]
            subject += [f"group {printable(problem.group_id)}"] if problem.group_id else []
            subject += [f"topic {printable(problem.topic)}"] if problem.topic else []
            subject += [f"partition {problem.partition}"] if problem.partition is not None else []
            about = f"could not read {problem.what} of {', '.join(subject)}"
            click.echo(f"{about}: {printable(problem.why)}", err=True)


def printable(value: object) -> str:
    """Return text for a terminal: control characters from a name would otherwise be obeyed."""
    text = str(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else "�" for c in text)


def echo_data(text: str) -> None:
    """Write data as it is, but to a terminal without the control characters it would obey."""
    if sys.stdout.isatty():
        text = "\n".join(printable(line) for line in text.split("\n"))
    # Without `color` click would take escape sequences out of names on their way into a file.
    click.echo(text, nl=False, color=True)


def _write_table(frame: pd.DataFrame) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in frame.columns:
        numeric = frame[name].dtype.kind in "iuf"
        table.add_column(str(name), justify="right" if numeric else "left", overflow="fold")
    for row in frame.itertuples(index=False):
        # Text, not str: a group named "[red]" is a name, not markup.
        table.add_row(*(Text(_cell(value)) for value in row))
    # What goes into a file or a pipe is not folded to the width of some terminal.
    Console(width=None if sys.stdout.isatty() else 1000, highlight=False).print(table)


def _cell(value: Any) -> str:
    import numpy as np
    import pandas as pd

    if isinstance(value, np.generic):  # what some columns hold in place of int and bool
        value = value.item()
    if pd.isna(value) or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%SZ}"
    return printable(value)
