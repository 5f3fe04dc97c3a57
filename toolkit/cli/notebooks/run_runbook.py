"""The part of `offsetbook run` that runs a runbook on each of its clusters."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from toolkit.cli.notebooks.run_request import RunRequest, print_parameters, print_step, refresh
from toolkit.cli.output import after_a_change, echo_json, printable
from toolkit.errors import ToolkitError
from toolkit.runbooks.notify import content_of, notify
from toolkit.runbooks.parallel_runs import ClusterRunResult, OnStep, exit_code, run_all
from toolkit.runbooks.run_inputs import runs_of, values_of
from toolkit.runbooks.run_process import RunOrder
from toolkit.runbooks.runbook_page import Runbook, read_runbook
from toolkit.runner.past_runs import remove_old
from toolkit.runner.result import undo_command
from toolkit.runner.run_log import NAME as LOG_NAME
from toolkit.runner.run_log import run_log


def show_parameters(path: Path) -> int:
    page = read_runbook(path)
    may_give = [
        replace(parameter, default=page.parameters.get(parameter.name, parameter.default))
        for parameter in page.declared
        if not page.why_fixed(parameter.name)
    ]
    print_parameters(page.name, tuple(may_give))
    return 0


def run_runbook(path: Path, request: RunRequest) -> int:
    page = read_runbook(path)
    try:
        orders = _orders(page, request)
    except ToolkitError as exc:
        refused = ClusterRunResult((), exc.exit_code, why=str(exc), begun=False)
        for problem in notify(page, [refused]):
            _note(problem, [])
        raise
    on_step: OnStep = (lambda *_: None) if request.quiet else _print_step
    ended = run_all(orders, at_once=page.at_once, on_step=on_step)
    problems = notify(page, ended)  # before what a full disk or a closed pipe may end
    with after_a_change():
        for problem in problems:
            _note(problem, ended)
        _clear_up(page, request.output_dir)
        _print(page, ended, request.output)
    return exit_code(ended)


def _orders(page: Runbook, request: RunRequest) -> list[RunOrder]:
    values = values_of(page, request.all_parameters, dry_run=request.dry_run)
    return [
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


def _clear_up(page: Runbook, output_dir: Path) -> None:
    if not output_dir.is_dir():
        return
    if page.keep_for:
        with suppress(OSError):  # list only the remaining runs
            remove_old(output_dir, page.name, older_than=page.keep_for)
    refresh(output_dir)


def _print_step(order: RunOrder, step: Mapping[str, Any]) -> None:
    print_step(step, where=f"{', '.join(order.clusters)} " if order.clusters else "")


def _print(page: Runbook, ended: Sequence[ClusterRunResult], output: str) -> None:
    if output == "json":
        echo_json(content_of(page, ended))
        return
    for one in ended:
        where = f"{', '.join(one.clusters)}: " if one.clusters else ""
        click.echo(printable(f"{where}{one.status}: {one.message}").rstrip(": "))
        if one.result and one.result["error"] and one.undo:
            click.echo(f"  undo: {undo_command(one.undo, one.result['parameters'])}")
        if one.result:
            folder = Path(one.result["folder"])
            report = one.result["report"]
            click.echo(f"  {os.path.relpath(folder / report if report else folder)}")


def _note(problem: str, ended: Sequence[ClusterRunResult]) -> None:
    """Report a failed notification, on stderr and in the log of every run."""
    with suppress(OSError):
        click.echo(f"note: {printable(problem)}", err=True)
    for one in ended:
        if one.result and (folder := Path(one.result["folder"])) and (folder / LOG_NAME).is_file():
            with run_log(folder) as log:
                log.say(problem)
