"""`offsetbook init`: copy the notebooks and runbooks to a directory of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from toolkit.cli.output import printable
from toolkit.model.plurals import counted

if TYPE_CHECKING:
    from toolkit.templates.working_copies import CopiedFile


@click.command("init")
@click.argument("directory", default=".", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--update",
    is_flag=True,
    help="Show how files differ from those of this version; replace the ones you did not edit.",
)
def command(*, directory: Path, update: bool) -> None:
    """
    Copy notebooks, runbooks and a commented fleet.yaml to DIRECTORY (default: here).

    Existing files are kept: run it again to get what is missing. `offsetbook run` runs a copy by
    its path; a name such as `20` always means the notebook of the package.
    """
    from toolkit.templates.working_copies import copy_templates

    show_copied(directory, copy_templates(directory, update=update), update=update)


def show_copied(directory: Path, files: list[CopiedFile], *, update: bool) -> None:
    """Print what was done with each file, and with `update` how existing files differ."""
    from toolkit.templates.working_copies import CopyStatus

    for file in files:
        if update and file.difference:
            click.echo(printable(file.difference))
    for status in CopyStatus:
        paths = [str(file.path) for file in files if file.status is status]
        # A new directory is one line; what differs is named.
        names = "" if status in {CopyStatus.CREATED, CopyStatus.UNCHANGED} else ", ".join(paths)
        if paths:
            count = counted(len(paths), "file")
            click.echo(f"{directory}: {count} {status}{': ' if names else ''}{names}", err=True)
    if not update and any(file.status is CopyStatus.OUTDATED for file in files):
        click.echo("use --update to see the differences and replace these", err=True)
