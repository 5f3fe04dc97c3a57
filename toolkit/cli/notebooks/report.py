"""`offsetbook report`: an executed notebook as one offline HTML file."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("report")
@click.argument("notebook", type=click.Path(path_type=Path))
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write it. Default: beside the notebook, as .html.",
)
def command(notebook: Path, output: Path | None) -> None:
    """
    Write an executed NOTEBOOK as one HTML file that asks the network for nothing.

    Also one that failed or was only run in part: the failing step stands on top. What `offsetbook
    run` left beside the notebook (result.json) is used where it is there.
    """
    from toolkit.runner.report_of import report_of

    html = output or notebook.with_suffix(".html")
    status = report_of(notebook, html)
    click.echo(f"the notebook's run: {status}", err=True)
    click.echo(html)
