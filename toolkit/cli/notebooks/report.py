"""`offsetbook report`: an executed notebook as one offline HTML file."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("report")
@click.argument("notebook", type=click.Path(path_type=Path))
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Output file. Default: the notebook's name with .html.",
)
def command(notebook: Path, output: Path | None) -> None:
    """
    Write an executed NOTEBOOK as one self-contained HTML file (no network access).

    Works for failed or partly executed notebooks: the failing step is shown first. Uses result.json
    next to the notebook, if present.
    """
    from toolkit.runner.report_of import report_of

    html = output or notebook.with_suffix(".html")
    status = report_of(notebook, html)
    click.echo(f"status of the notebook's run: {status}", err=True)
    click.echo(html)
