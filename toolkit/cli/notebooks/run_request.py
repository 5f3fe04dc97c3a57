"""The arguments of `offsetbook run`, and what runs of notebooks and runbooks share."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.output import printable
from toolkit.errors import UsageError

if TYPE_CHECKING:
    from toolkit.runner.parameters import Parameter


@dataclass(frozen=True)
class RunRequest:
    """Notebook or runbook to run, parameters and output options."""

    name: str
    parameters: tuple[tuple[str, str], ...]  # names and texts
    parameters_file: Path | None
    clusters: tuple[str, ...]
    dry_run: bool
    output_dir: Path
    output: str
    quiet: bool

    @property
    def all_parameters(self) -> tuple[tuple[str, str], ...]:
        """Also those of the file, but for what `parameters` has."""
        from toolkit.runner.parameters import read_texts

        if self.parameters_file is None:
            return self.parameters
        named = {name for name, _ in self.parameters}
        from_file = (pair for pair in read_texts(self.parameters_file) if pair[0] not in named)
        return (*from_file, *self.parameters)


def print_step(step: Mapping[str, Any], where: str = "") -> None:
    line = f"[{where}{step['number']}/{step['total']}] {step['heading']}"
    with suppress(OSError):  # a closed pipe ends no run
        click.echo(printable(line).rstrip(), err=True)


def refresh(output_dir: Path) -> None:
    """Update the list of runs; a failure does not affect the run."""
    from toolkit.runner.past_runs import refresh_index

    try:
        refresh_index(output_dir)
    except UsageError as exc:
        click.echo(f"note: {exc.problem}", err=True)


def print_parameters(name: str, parameters: tuple[Parameter, ...]) -> None:
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
