"""`offsetbook run`: run a notebook headlessly and leave a report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toolkit.errors import UsageError

if TYPE_CHECKING:
    from toolkit.runbook import Parameter, RunResult, Step


def _split(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> object:
    pairs = [text.partition("=") for text in given]
    for name, equals, _value in pairs:
        if not equals or not name:
            raise click.BadParameter(f"{name!r} is not name=value")
    return tuple((name, value) for name, _equals, value in pairs)


@click.command("run")
@click.argument("notebook")
@click.option(
    "-p",
    "--parameter",
    "parameters",
    metavar="NAME=VALUE",
    multiple=True,
    callback=_split,
    help="A parameter of the notebook; repeat it for a list.",
)
@click.option(
    "--output-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="Where the run's folder is made.",
)
@click.option(
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="What stands on stdout afterwards: the outcome, or the content of result.json.",
)
@click.option("--quiet", is_flag=True, help="Do not name the steps on stderr.")
@click.option(
    "--help-parameters", is_flag=True, help="List the parameters of the notebook and run nothing."
)
@click.pass_context
def command(  # noqa: PLR0913 - click hands every option over by name
    context: click.Context,
    *,
    notebook: str,
    parameters: tuple[tuple[str, str], ...],
    output_dir: Path,
    output: str,
    quiet: bool,
    help_parameters: bool,
) -> None:
    """
    Run NOTEBOOK headlessly and leave a report.

    NOTEBOOK is a path, or the beginning of a name in notebooks/: `20` is enough.

    The run's folder holds the executed notebook, report.html and result.json. Exit codes: 0 done,
    1 failed, 2 wrong usage, 3 blocked by a guard-rail, 4 partly applied.
    """
    # Slower to import than `--help` may take.
    from toolkit.runbook import (
        find_notebook,
        parse_parameters,
        read_parameters,
        run_notebook,
    )

    path = find_notebook(notebook)
    declared = read_parameters(path)
    if help_parameters:
        _print_parameters(path, declared)
        return
    result = run_notebook(
        path,
        parameters=parse_parameters(declared, parameters, notebook=path.name),
        output_dir=output_dir,
        on_step=_ignore if quiet else _print_step,
    )
    _refresh_index(output_dir)
    _print_result(result, output)
    context.exit(result.exit_code)


def _ignore(_step: Step) -> None:
    """Print nothing."""


def _print_step(step: Step) -> None:
    click.echo(f"[{step.number}/{step.total}] {step.heading}".rstrip(), err=True)


def _refresh_index(output_dir: Path) -> None:
    """Bring the list of runs up to date; a run is no worse where that cannot be done."""
    from toolkit.runbook.past_runs import refresh_index

    try:
        refresh_index(output_dir)
    except UsageError as exc:
        click.echo(f"note: {exc.problem}", err=True)


def _print_result(result: RunResult, output: str) -> None:
    if output == "json":
        click.echo(json.dumps(result.as_dict(), indent=2, ensure_ascii=False))
        return
    click.echo(f"{result.status}: {result.said}".rstrip(": "))
    # Without a report the folder still holds the executed notebook.
    click.echo(result.folder / result.report if result.report else result.folder)


def _print_parameters(path: Path, parameters: tuple[Parameter, ...]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not parameters:
        click.echo(f"{path.name} has no parameters.")
        return
    table = Table(box=None, pad_edge=False, header_style="")
    for heading in ("parameter", "type", "default", "help"):
        table.add_column(heading, overflow="fold")
    for parameter in parameters:
        # Text, because rich reads [square brackets] as its own mark-up.
        cells = (parameter.name, parameter.type.name, repr(parameter.default), parameter.help)
        table.add_row(*map(Text, cells))
    Console().print(table)
