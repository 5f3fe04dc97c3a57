"""
Write rows to stdout as a table, JSON or CSV, or to a file of the user; words go to stderr.

On a terminal they are broken at spaces: it would itself break them inside words. A file is replaced
only if the user confirms it.
"""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from toolkit.cli.options import Option
from toolkit.errors import UsageError
from toolkit.model import Unread
from toolkit.model.names import shown_name
from toolkit.model.plurals import counted
from toolkit.model.rows import WORDS, Row, Rows, concatenated

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.cli.terminal_table import Screen, TerminalTable
    from toolkit.errors import ToolkitError
    from toolkit.model import Problem, Snapshot

PARTLY = 4  # exit code: not everything could be read, or changed
FEW = 10  # lines of one kind on stderr; more become one with a count
MOST_NAMED = 5
PIECE = 1000  # rows of JSON or CSV
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a spreadsheet's formulas begin
# A quoted text in a message is one word: a shell would run a part of a copied command.
_WORD = re.compile(r"(?:(?<!\w)'[^']*'|\S)+")
_COMMAND = "offsetbook "  # a line that begins with it is a command alone

_text: Callable[[Any], str] = json.JSONEncoder(ensure_ascii=False).encode
STDOUT = Path("-")
OUTPUT_PATH = click.Path(path_type=Path, dir_okay=False, allow_dash=True)  # - is stdout
FORCE: Option = click.option("--force", is_flag=True, help="Replace the output file if it exists.")


def write_tables(
    tables: Sequence[Rows], output: str, *, most: str = "", important: Sequence[str] = ()
) -> None:
    """
    Write tables of the same columns, one a cluster, as one; without any, write nothing.

    `most` names the column by which each is ordered, largest first; `important` see `write_rows`.
    """
    if tables:
        write_rows(concatenated(tables, most=most), output, important=important)


def write_frame(
    frame: pd.DataFrame, output: str, *, important: Sequence[str] = (), is_whole: bool = False
) -> None:
    from toolkit.report.cell_text import rows_of

    frame = frame if output == "table" else _in_seconds(frame)
    write_rows(rows_of(frame), output, important=important, is_whole=is_whole)


def _in_seconds(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with durations as numbers."""
    columns = {str(name): column for name, column in frame.items() if column.dtype.kind == "m"}
    seconds = {name: column.dt.total_seconds() for name, column in columns.items()}
    return frame.assign(**seconds) if seconds else frame


def write_rows(
    table: Rows, output: str, *, important: Sequence[str] = (), is_whole: bool = False
) -> None:
    """
    Write rows in the chosen form; without any, the headings (table, CSV) or [] (JSON).

    JSON and CSV are written as the rows come. On a narrow terminal, a table shows as many columns
    as fit: first the `important` ones, then the others in their order. Rows that do not fit the
    screen are counted, unless the table `is_whole`, as one that is approved has to be.
    """
    if output == "table":
        _write_table(table, important, is_whole=is_whole)
    else:
        write_data(table, output)


def write_data(table: Rows, output: str, *, with_heading: bool = True) -> None:
    """Write rows as JSON or CSV, which has a heading."""
    texts = json_texts(table) if output == "json" else csv_texts(table)
    if output == "csv" and not with_heading:
        next(texts)
    for text in texts:
        echo_data(text, is_json=output == "json")


def csv_texts(table: Rows) -> Iterator[str]:
    """Yield CSV with a heading; text that a spreadsheet would execute begins with an apostrophe."""
    may_execute = [place for place, kind in enumerate(table.columns.values()) if kind in WORDS]
    rows = iter(table.rows)
    yield _csv([tuple(table.columns)])
    while piece := list(islice(rows, PIECE)):
        yield _csv(_without_formulas(piece, may_execute))


def _csv(rows: list[Row]) -> str:
    file = io.StringIO(newline="")
    csv.writer(file, lineterminator="\n").writerows(rows)
    return file.getvalue()


def _without_formulas(rows: list[Row], may_execute: list[int]) -> list[Row]:
    columns: list[Any] = list(zip(*rows, strict=True))
    for place in may_execute:
        if any(map(_is_formula, _distinct(columns[place]))):
            columns[place] = [f"'{cell}" if _is_formula(cell) else cell for cell in columns[place]]
            rows = list(zip(*columns, strict=True))
    return rows


def _distinct(cells: Sequence[Any]) -> Collection[Any]:
    """Cached: the same names are printed many times."""
    try:
        return set(cells)
    except TypeError:  # a list
        return cells


def _is_formula(cell: object) -> bool:
    return isinstance(cell, str) and cell.startswith(FORMULA)


def json_texts(table: Rows) -> Iterator[str]:
    """Yield a JSON array of objects, one line a value; times in ISO 8601."""
    names = [f"    {_json(name)}:" for name in table.columns]
    pattern = "  {\n" + ",\n".join(f"{name.replace('%', '%%')}%s" for name in names) + "\n  }"
    rows = iter(table.rows)
    between = "[\n"
    while piece := list(islice(rows, PIECE)):
        yield between + ",\n".join(pattern % tuple(map(_json, row)) for row in piece)
        between = ",\n"
    yield "[\n\n]\n" if between == "[\n" else "\n]\n"


def _json(value: Any) -> str:
    if isinstance(value, str):
        return _text(value).replace("/", "\\/")
    if isinstance(value, datetime):
        return f'"{value.astimezone(UTC).isoformat(timespec="milliseconds")[:-6]}Z"'
    return _text(round(value, 10) if isinstance(value, float) else value)


def write_problems(snapshots: Iterable[Snapshot]) -> None:
    """Say on stderr what could not be read; see `problem_lines`."""
    for line in problem_lines(snapshots):
        click.echo(line, err=True)


def problem_lines(snapshots: Iterable[Snapshot]) -> Iterator[str]:
    """
    Yield what could not be read, except missing groups, which were reported before.

    One line each, but the first ones and a count where many have the same reason.
    """
    for snapshot in snapshots:
        if snapshot.ignored:
            left_out = counted(snapshot.ignored, "group")
            about = f"left out of cluster {snapshot.cluster}: {left_out}"
            yield f"{about} (ignored_groups in the fleet file)"
        same: dict[tuple[str, str], list[Problem]] = defaultdict(list)
        for problem in snapshot.problems:
            if problem.what is not Unread.GROUP:
                same[problem.what, problem.why].append(problem)
        for (what, why), problems in same.items():
            shown = problems if len(problems) <= FEW else problems[:MOST_NAMED]
            for problem in shown:
                about = ", ".join([f"cluster {snapshot.cluster}", *_subject(problem)])
                yield f"could not read {what} of {about}: {printable(why)}"
            if more := len(problems) - len(shown):
                text = f"could not read {what} of {more:,} more in cluster {snapshot.cluster}"
                yield f"{text}, for the same reason"


def share_group_lines(cluster: str, names: Sequence[str]) -> Iterator[str]:
    """Yield that share groups have no committed offsets, and what shows theirs, if any."""
    if names:
        yield (
            f"cluster {cluster}: share groups have no committed offsets: {few_names(names)}. "
            "'kafka-share-groups.sh --describe --offsets' shows their share-partition start offsets"
        )


def _subject(problem: Problem) -> Iterator[str]:
    if problem.group_id is not None:
        yield f"group {printable_name(problem.group_id)}"
    if problem.topic:
        yield f"topic {printable(problem.topic)}"
    if problem.partition is not None:
        yield f"partition {problem.partition}"


def few_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return ", ".join(map(printable_name, names[:MOST_NAMED])) + more


def printable(value: object) -> str:
    """Return text for a terminal: control characters from a name would otherwise be obeyed."""
    text = str(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else "�" for c in text)


def printable_name(name: str) -> str:
    """Return a name of a group or topic for a terminal, in quotes where it looks like none."""
    return printable(shown_name(name))


def in_message(command: str) -> str:
    """Return a command in quotes; if it has some itself, on a line of its own, to be copied."""
    return f"'{command}'" if "'" not in command else f"\n{command}\n"


def echo_with_commands(message: str) -> None:
    """Write a message with commands, see `in_message`, to stderr."""
    click.echo(re.sub(r"[; ]*\n[; ]*", "\n", message).strip("\n"), err=True)


def without_colour() -> bool:
    """Whether the user asked for no colours, https://no-color.org, or the terminal has none."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


def echo_error(error: ToolkitError) -> None:
    """Write an error to stderr; also after the command has ended, where no context is left."""
    head = click.style("error:", fg="red")
    click.echo(f"{head} {printable(error)}", err=True, color=False if without_colour() else None)


def echo_data(text: str, *, is_json: bool = False) -> None:
    """
    Write data literally, but to a terminal without control characters.

    JSON has an escape for what the encoding of stdout lacks; anything else is UTF-8.
    """
    if sys.stdout.isatty():
        text = "\n".join(printable(line) for line in text.split("\n"))
    elif is_json and not _fits(text, sys.stdout.encoding):
        text = re.sub(r"[^\x00-\x7f]", lambda found: json.dumps(found[0])[1:-1], text)
    elif not is_json and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    # Without `color` click would take escape sequences out of names on their way into a file.
    click.echo(text, nl=False, color=True)


def echo_json(document: Mapping[str, object]) -> None:
    """Write a document as data."""
    echo_data(f"{json.dumps(document, indent=2, ensure_ascii=False)}\n", is_json=True)


def _fits(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def replace_what_cannot_be_written() -> None:
    """Write a `?` for a character that the encoding of stdout or stderr lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def open_closed_streams() -> None:
    """
    Connect a standard stream that was closed, as by `>&-`, with /dev/null.

    Python leaves None in its place, and the next file that is opened would get its number.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is its own
            os.set_inheritable(nowhere, True)
            setattr(sys, name, os.fdopen(nowhere, mode))


def exit_if_full(exc: OSError) -> None:
    """End with 1 and one line if the disk is full; an error of opening a file names the file."""
    if exc.errno in FULL and exc.filename is None:
        _stop_writing(f"the output could not be written: {exc.strerror}")
        sys.exit(1)


@contextmanager
def after_a_change() -> Iterator[None]:
    """Let a full disk or a closed pipe not turn the exit code: the change was made."""
    try:
        yield
        sys.stdout.flush()
    except OSError as exc:
        _stop_writing(f"the result could not be written: {exc.strerror}")


def _stop_writing(why: str) -> None:
    with suppress(OSError):
        click.echo(why, err=True)
    nowhere = os.open(os.devnull, os.O_WRONLY)  # for what is buffered, and follows
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _write_table(table: Rows, important: Sequence[str], *, is_whole: bool) -> None:
    from toolkit.cli.terminal_table import Screen

    screen = Screen.current(has_colours=not without_colour()) if sys.stdout.isatty() else None
    shown = table_on(screen, table, important=important, is_whole=is_whole)
    click.echo("\n".join([*shown.header, *shown.rows]), color=bool(screen))
    if screen and shown.omitted:
        click.echo(shown.omitted, err=True)


def table_on(
    screen: Screen | None, table: Rows, *, important: Sequence[str], is_whole: bool = False
) -> TerminalTable:
    """Return rows as a table that is safe to print; for a screen, as it shows them."""
    from toolkit.cli.terminal_table import terminal_table

    shown = terminal_table(table, printable, screen=screen, important=important, is_whole=is_whole)
    if screen and screen.has_colours:
        return replace(shown, header=[click.style(line, bold=True) for line in shown.header])
    return shown


def break_long_lines() -> None:
    """Let stderr break messages at spaces if it is a terminal with a known width."""
    own = sys.__stderr__
    if own is None or sys.stderr is not own or not own.isatty():
        return
    # By the same descriptor: if it is redirected meanwhile, such as to a file, that gets them.
    raw = io.BufferedWriter(io.FileIO(own.fileno(), "w", closefd=False))
    sys.stderr = _MessageLines(
        raw, own.encoding, own.errors, line_buffering=True, write_through=True
    )


class _MessageLines(io.TextIOWrapper):
    """The terminal's stderr."""

    def write(self, text: str, /) -> int:
        """Write whole lines broken at spaces, and everything else literally."""
        if text.endswith("\n"):
            lines = text[:-1].split("\n")
            text = "\n".join(broken_at_spaces(line, _width_of(self)) for line in lines) + "\n"
        return super().write(text)


def _width_of(terminal: TextIO) -> int:
    """Return how many characters a line of a terminal has; 0 if unknown."""
    try:
        return os.get_terminal_size(terminal.fileno()).columns
    except OSError:
        return 0


def broken_at_spaces(line: str, width: int) -> str:
    """Return a line as several that fit, as far as no word is longer; 0 is no limit."""
    if not width or 2 * len(line) <= width or line.startswith(_COMMAND):
        return line
    from rich.cells import cell_len

    if cell_len(click.unstyle(line)) <= width:
        return line
    indent = line[: len(line) - len(line.lstrip())]
    words = _WORD.findall(line)
    lines = [indent + words[0]] if words else [line]
    for word in words[1:]:
        joined = f"{lines[-1]} {word}"
        if cell_len(click.unstyle(joined)) <= width:
            lines[-1] = joined
        else:
            lines.append(indent + word)
    return "\n".join(lines)


def check_output_file(out: Path, *, force: bool) -> None:
    """
    Refuse, before any work, a file that would be replaced; raises UsageError.

    StateFileError where something is there that is no regular file: --force does not replace that.
    """
    from toolkit.storage.formats.atomic_files import check_regular

    if out == STDOUT:
        return
    if check_regular(out) and not force:
        raise UsageError(f"{out} exists", hint="use another name, or --force to replace it")


def name_of(out: Path) -> str:
    return "stdout" if out == STDOUT else str(out)


def write_output_file(out: Path, text: str, *, errors: str = "strict") -> None:
    """Write a text to the file, in one piece, or to stdout; raises StateFileError."""
    from toolkit.storage.formats.atomic_files import write_whole

    if out == STDOUT:
        echo_data(text.encode("utf-8", errors).decode())
    else:
        write_whole(out, text, errors=errors)
