"""`offsetbook fleet-history`: stored results of fleet-lag."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from toolkit.cli.options import OUTPUT, WholeNumber
from toolkit.cli.output import write_rows
from toolkit.errors import NotFound
from toolkit.model.plurals import counted
from toolkit.model.rows import Rows

if TYPE_CHECKING:
    from toolkit.spark.history import History

ROOT = click.argument("root", metavar="URL")


@click.group("fleet-history")
def command() -> None:
    """
    List, compact and expire fleet-lag results in a directory or at a URL.

    Safe while other runs read or write.
    """


@command.command("runs")
@ROOT
@OUTPUT
def runs(root: str, output: str) -> None:
    """List the runs, oldest first."""
    rows = [(run.run_id, run.taken_at) for run in _history(root).runs()]
    write_rows(Rows({"run": "text", "taken_at": "time"}, rows), output)


@command.command("compact")
@ROOT
def compact(root: str) -> None:
    """Compact each finished day into one file per table."""
    days = _history(root).compact(before=datetime.now(UTC).date())
    click.echo(f"Compacted {counted(len(days), 'day')}", err=True)


@command.command("expire")
@ROOT
@click.option("--keep-days", type=WholeNumber(min=1), required=True)
def expire(root: str, keep_days: int) -> None:
    """Delete results older than --keep-days."""
    days = _history(root).expire(keep_days=keep_days, now=datetime.now(UTC))
    click.echo(f"Deleted {counted(len(days), 'day')}", err=True)


def _history(root: str) -> History:
    from toolkit.spark.history import RUNS, History

    history = History(root)
    if history.open(RUNS) is None:  # of a wrong address nothing would ever be removed
        raise NotFound(
            f"no history at {root}", hint="'offsetbook fleet-lag --history URL' begins one"
        )
    return history
