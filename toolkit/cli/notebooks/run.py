"""`offsetbook run`: run a runbook or a notebook headless and write an HTML report."""

from __future__ import annotations

import sys
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.notebooks.run_request import RunRequest, print_parameters, print_step, refresh
from toolkit.cli.options import OUTPUT_FLAGS, clusters_option
from toolkit.cli.output import after_a_change, echo_json, printable
from toolkit.cli.progress_line import ProgressLine
from toolkit.errors import UsageError
from toolkit.journeys.change.container_command import mark_child_processes

if TYPE_CHECKING:
    from toolkit.runner.execution import CellStep
    from toolkit.runner.result import RunResult


def _split(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> object:
    pairs = [text.partition("=") for text in given]
    for name, equals, _value in pairs:
        if not equals or not name:
            raise click.BadParameter(f"{name!r} is not name=value")
    return tuple((name, value) for name, _equals, value in pairs)


@click.command("run")
@click.argument("name", metavar="RUNBOOK|NOTEBOOK")
@click.option(
    "-p",
    "--parameter",
    "parameters",
    metavar="NAME=VALUE",
    multiple=True,
    callback=_split,
    help="Set a notebook parameter; repeat it for list values.",
)
@click.option(
    "-f",
    "--parameters-file",
    type=click.Path(path_type=Path),
    help="YAML file with `name: value` lines; -p overrides it.",
)
@clusters_option("Runbooks only: run on this cluster of the page; repeatable.")
@click.option("--dry-run", is_flag=True, help="Runbooks only: dry run, whatever the page allows.")
@click.option(
    "--output-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="Parent directory of the run directory.",
)
@click.option(
    *OUTPUT_FLAGS,
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Output format: summary or full JSON result.",
)
@click.option("--quiet", is_flag=True, help="Do not print steps to stderr.")
@click.option("--help-parameters", is_flag=True, help="Show the notebook's parameters and exit.")
@click.pass_context
def command(
    context: click.Context,
    /,
    *,
    help_parameters: bool,
    **given: Any,
) -> None:
    """
    Run a runbook or a notebook headless and write an HTML report.

    A runbook is the name of a page in runbooks/, or a path; it runs on each of its clusters. A
    notebook is a path, or a prefix of a name in notebooks/, such as `20`.

    The run directory contains the executed notebook, report.html, run.log and result.json. Exit
    codes: 0 done or nothing to do, 1 failed, 2 usage error, 3 blocked by a guard rail or a limit, 4
    partly applied, or incomplete read.
    """
    # Imported late: too slow for `--help`.
    from toolkit.runbooks.catalogue import find_runbook

    mark_child_processes()
    request = RunRequest(**given)
    page = find_runbook(request.name)
    if page:
        from toolkit.cli.notebooks.run_runbook import run_runbook, show_parameters

        context.exit(show_parameters(page) if help_parameters else run_runbook(page, request))
    context.exit(_run_notebook(request, help_parameters=help_parameters))


def _run_notebook(request: RunRequest, *, help_parameters: bool) -> int:
    from toolkit.runbooks.catalogue import pages_in
    from toolkit.runner.notebooks import find_notebook
    from toolkit.runner.parameters import parse_parameters, read_parameters, saved_approval
    from toolkit.runner.run_notebook import run_notebook

    try:
        path = find_notebook(request.name)
    except UsageError as exc:
        close = get_close_matches(request.name, (page.stem for page in pages_in()), n=1)
        if not close:
            raise
        raise UsageError(
            f"no runbook or notebook named {request.name!r}", hint=f"did you mean {close[0]!r}?"
        ) from exc
    declared = read_parameters(path)
    if help_parameters:
        print_parameters(path.name, declared)
        return 0
    if request.clusters or request.dry_run:
        raise UsageError(
            "--cluster and --dry-run apply to runbooks only",
            hint="use -p cluster=NAME -p dry_run=true",
        )
    parameters = parse_parameters(declared, request.all_parameters, notebook=path.name)
    if unused := saved_approval(declared, parameters):
        message = f"{path.name} has {', '.join(unused)} saved; not used: pass them with -p"
        click.echo(f"note: {message}", err=True)

    def on_step(step: CellStep) -> None:
        if not request.quiet:
            line.clear()
            print_step(asdict(step))
            line.show("running")

    with ProgressLine(path.stem, visible=not request.quiet and sys.stderr.isatty()) as line:
        result = run_notebook(
            path, parameters=parameters, output_dir=request.output_dir, on_step=on_step
        )
    with after_a_change():
        refresh(request.output_dir)
        _print_result(result, request.output)
    return result.exit_code


def _print_result(result: RunResult, output: str) -> None:
    from toolkit.runner.result import undo_command

    if output == "json":
        echo_json(result.as_dict())
        return
    click.echo(f"{result.status}: {printable(result.message)}".rstrip(": "))
    if result.error and result.undo:
        click.echo(f"undo: {undo_command(result.undo, result.parameters)}")
    # Without a report, the directory still has the executed notebook.
    click.echo(result.folder / result.report if result.report else result.folder)
