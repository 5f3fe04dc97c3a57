"""`offsetbook runs-index`: the page that lists the runs of a folder."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("runs-index")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=Path("runs"))
def command(folder: Path) -> None:
    """
    Write FOLDER/index.html, which lists the runs in FOLDER (default: runs), newest first.

    `offsetbook run` updates it after each run. The page is self-contained. A run with a missing or
    broken result.json is listed as such.
    """
    from toolkit.runner.past_runs import refresh_index

    click.echo(refresh_index(folder))
