"""`offsetbook runbooks`: list and validate runbooks."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from toolkit.cli.options import OUTPUT
from toolkit.cli.output import echo_error, write_rows
from toolkit.errors import UsageError
from toolkit.model.rows import Rows


@click.command("runbooks")
@click.argument(
    "folder", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option("--write", is_flag=True, help="Update the list in the folder's README.md.")
@OUTPUT
def command(*, folder: Path | None, write: bool, output: str) -> None:
    """
    List the runbooks in FOLDER (default: ./runbooks, else those of the package) and validate them.

    Exit code 2 if a page is invalid.
    """
    from toolkit.runbooks.catalogue import (
        README,
        changes_in_words,
        clusters_in_words,
        folder_of_runbooks,
        read_all,
        readme_of,
    )
    from toolkit.storage.formats.atomic_files import write_whole
    from toolkit.templates import RUNBOOKS

    where = folder or folder_of_runbooks()
    if write and where == RUNBOOKS:
        raise UsageError(f"{where} belongs to the package", hint="name the folder to write to")
    pages, problems = read_all(where)
    rows = [
        (page.name, page.title, changes_in_words(page), clusters_in_words(page), page.notebook.stem)
        for page in pages
    ]
    columns = ("runbook", "title", "changes", "clusters", "notebook")
    write_rows(Rows(dict.fromkeys(columns, "text"), rows), output)
    for problem in problems:
        echo_error(problem)
    if write and not problems:
        write_whole(where / README, readme_of(pages))
    sys.exit(2 if problems else 0)
