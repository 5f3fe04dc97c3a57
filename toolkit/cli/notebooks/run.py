"""`offsetbook run`: run a runbook or a notebook headless and write an HTML report."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.options import OUTPUT_FLAGS, clusters_option
from toolkit.cli.output import echo_data, printable
from toolkit.cli.progress_line import ProgressLine
from toolkit.errors import UsageError
from toolkit.journeys.change.container_command import mark_child_processes
from toolkit.runbooks.notify import content_of, notify
from toolkit.runbooks.parallel_runs import ClusterRunResult, exit_code, run_all
from toolkit.runbooks.run_inputs import runs_of, values_of, why_fixed
from toolkit.runbooks.run_process import RunOrder
from toolkit.runbooks.runbook_page import Runbook, read_runbook
from toolkit.runner.past_runs import remove_old
from toolkit.runner.run_log import NAME as LOG_NAME
from toolkit.runner.run_log import run_log

if TYPE_CHECKING:
    from toolkit.runner.execution import CellStep
    from toolkit.runner.parameters import Parameter
    from toolkit.runner.result import RunResult


@dataclass(frozen=True)
class RunRequest:
    """Notebook or runbook to run, parameters and output options."""

    name: str
    parameters: tuple[tuple[str, str], ...]
    clusters: tuple[str, ...]
    dry_run: bool
    output_dir: Path
    output: str
    quiet: bool


def refresh(output_dir: Path) -> None:
    """Update the list of runs; a failure does not affect the run."""
    from toolkit.runner.past_runs import refresh_index

    try:
        refresh_index(output_dir)
    except UsageError as exc:
        click.echo(f"note: {exc.problem}", err=True)


def print_renamed(
    request: RunRequest, declared: tuple[Parameter, ...], in_page: tuple[str, ...] = ()
) -> None:
    """Print which parameters were given by their old names, in the request or in a page."""
    from toolkit.runner.parameters import rename_notices

    used = [name for name, _ in request.parameters]
    known = [parameter.name for parameter in declared]
    for notice in rename_notices([*in_page, *used], known):
        click.echo(f"note: {notice}", err=True)


def print_parameters(name: str, parameters: tuple[Parameter, ...]) -> None:
    """Print the parameters of a notebook or runbook."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not parameters:
        click.echo(f"{name} has no parameters.")
        return
    table = Table(box=None, pad_edge=False, header_style="")
    for heading in ("parameter", "type", "default", "help"):
        table.add_column(heading, overflow="fold")
    for parameter in parameters:
        # Text, because rich reads [square brackets] as its own mark-up.
        cells = (parameter.name, parameter.type.name, repr(parameter.default), parameter.help)
        table.add_row(*map(Text, cells))
    Console().print(table)


def show_parameters(path: Path) -> int:
    """Print the parameters of a runbook."""
    page = read_runbook(path)
    may_give = [
        replace(parameter, default=page.parameters.get(parameter.name, parameter.default))
        for parameter in page.declared
        if not why_fixed(page, parameter.name)
    ]
    print_parameters(page.name, tuple(may_give))
    return 0


def run_runbook(path: Path, request: RunRequest) -> int:
    """Run a runbook, print its results, and return the exit code."""
    page = read_runbook(path)
    values = values_of(page, request.parameters, dry_run=request.dry_run)
    print_renamed(request, page.declared, page.old_names)
    orders = [
        RunOrder(
            runbook=page.name,
            notebook=str(page.notebook.resolve()),
            clusters=clusters,
            parameters=parameters,
            output_dir=str(request.output_dir),
            times=page.times,
        )
        for clusters, parameters in runs_of(page, values, clusters=request.clusters)
    ]
    on_step = _ignore if request.quiet else _print_run_step
    ended = run_all(orders, at_once=page.at_once, on_step=on_step)
    _clear_up(page, request.output_dir)
    _print_results(page, ended, request.output)
    for problem in notify(page, ended):
        _note(problem, ended)
    return exit_code(ended)


def _clear_up(page: Runbook, output_dir: Path) -> None:
    """Delete old runs as the page requires, and update the list of runs."""
    if not output_dir.is_dir():
        return
    if page.keep_for:
        with suppress(OSError):  # list only the remaining runs
            remove_old(output_dir, page.name, older_than=page.keep_for)
    refresh(output_dir)


def _ignore(_order: RunOrder, _step: Mapping[str, Any]) -> None:
    """Print nothing."""


def _print_run_step(order: RunOrder, step: Mapping[str, Any]) -> None:
    where = f"{', '.join(order.clusters)} " if order.clusters else ""
    line = f"[{where}{step['number']}/{step['total']}] {step['heading']}"
    click.echo(printable(line).rstrip(), err=True)


def _print_results(page: Runbook, ended: Sequence[ClusterRunResult], output: str) -> None:
    if output == "json":
        click.echo(json.dumps(content_of(page, ended), indent=2, ensure_ascii=False))
        return
    for one in ended:
        where = f"{', '.join(one.clusters)}: " if one.clusters else ""
        click.echo(printable(f"{where}{one.status}: {one.message}").rstrip(": "))
        if one.result:
            folder = Path(one.result["folder"])
            report = one.result["report"]
            click.echo(f"  {os.path.relpath(folder / report if report else folder)}")


def _note(problem: str, ended: Sequence[ClusterRunResult]) -> None:
    """Report a failed notification, on stderr and in the log of every run."""
    click.echo(f"note: {printable(problem)}", err=True)
    for one in ended:
        if one.result and (folder := Path(one.result["folder"])) and (folder / LOG_NAME).is_file():
            with run_log(folder) as log:
                log.say(problem)


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
    parameters_file: Path | None,
    **given: object,
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
    from toolkit.runner.parameters import read_texts

    mark_child_processes()
    request = RunRequest(**given)  # type: ignore[arg-type] # click hands every option over by name
    if parameters_file:
        named = {name for name, _ in request.parameters}
        from_file = [
            (name, text) for name, text in read_texts(parameters_file) if name not in named
        ]
        request = RunRequest(**{**given, "parameters": (*from_file, *request.parameters)})  # type: ignore[arg-type] # as above
    page = find_runbook(request.name)
    if page:
        from toolkit.cli.notebooks.run import run_runbook, show_parameters

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
            hint=("use -p cluster=NAME -p dry_run=true"),
        )
    parameters = parse_parameters(declared, request.parameters, notebook=path.name)
    print_renamed(request, declared)
    if unused := saved_approval(declared, parameters):
        message = f"{path.name} has {', '.join(unused)} saved; not used: pass them with -p"
        click.echo(f"note: {message}", err=True)
    line = ProgressLine(path.stem, visible=not request.quiet and sys.stderr.isatty())

    def on_step(step: CellStep) -> None:
        if not request.quiet:
            line.clear()
            _print_step(step)
            line.show("running")

    try:
        result = run_notebook(
            path, parameters=parameters, output_dir=request.output_dir, on_step=on_step
        )
    finally:
        line.clear()
    refresh(request.output_dir)
    _print_result(result, request.output)
    return result.exit_code


def _print_step(step: CellStep) -> None:
    click.echo(f"[{step.number}/{step.total}] {step.heading}".rstrip(), err=True)


def _print_result(result: RunResult, output: str) -> None:
    if output == "json":
        text = json.dumps(result.as_dict(), indent=2, ensure_ascii=False)
        echo_data(f"{text}\n", is_json=True)
        return
    click.echo(f"{result.status}: {printable(result.message)}".rstrip(": "))
    # Without a report, the directory still has the executed notebook.
    click.echo(result.folder / result.report if result.report else result.folder)
