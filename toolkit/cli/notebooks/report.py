"""`offsetbook report`: an executed notebook as one offline HTML file."""

from __future__ import annotations

from pathlib import Path

import click

from toolkit.cli.options import OUTPUT_FLAGS
from toolkit.cli.output import (
    FORCE,
    OUTPUT_PATH,
    STDOUT,
    check_output_file,
    write_output_file,
)
from toolkit.errors import UsageError


@click.command("report")
@click.argument("notebook", type=click.Path(path_type=Path))
@click.option(
    *OUTPUT_FLAGS,
    type=OUTPUT_PATH,
    help="Output file; - is stdout. Default: the notebook's name with .html.",
)
@FORCE
def command(notebook: Path, output: Path | None, *, force: bool) -> None:
    """
    Write an executed NOTEBOOK as one self-contained HTML file (no network access).

    Works for failed or partly executed notebooks: the failing step is shown first. Uses result.json
    next to the notebook, if present.
    """
    from toolkit.runner.report_of import report_of

    out = output or notebook.with_suffix(".html")
    if out.resolve() == notebook.resolve():
        raise UsageError(f"{out} is the notebook itself", hint="use another --output")
    check_output_file(out, force=force)
    report = report_of(notebook)
    write_output_file(out, report.html, errors="xmlcharrefreplace")
    click.echo(f"status of the notebook's run: {report.status}", err=True)
    if out != STDOUT:
        click.echo(out)
