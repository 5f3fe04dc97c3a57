"""Files that a command writes to a path of the user: replaced only if the user confirms it."""

from __future__ import annotations

from pathlib import Path

import click

from toolkit.cli.options import Option
from toolkit.errors import UsageError

STDOUT = Path("-")
FORCE: Option = click.option("--force", is_flag=True, help="Replace the output file if it exists.")


def output_path() -> click.Path:
    """Return the type of an option or argument that names an output file; - is stdout."""
    return click.Path(path_type=Path, dir_okay=False, allow_dash=True)


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
    """Return what a message calls the file."""
    return "stdout" if out == STDOUT else str(out)


def write_output_file(out: Path, text: str, *, errors: str = "strict") -> None:
    """Write a text to the file, in one piece, or to stdout; raises StateFileError."""
    from toolkit.cli.output import echo_data
    from toolkit.storage.formats.atomic_files import write_whole

    if out == STDOUT:
        echo_data(text.encode("utf-8", errors).decode())
    else:
        write_whole(out, text, errors=errors)
