"""`offsetbook doctor`: what works on this machine and with each cluster, and what does not."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toolkit.cli.options import CLUSTERS, FLEET, OUTPUT
from toolkit.cli.output import write_rows
from toolkit.model.plurals import counted
from toolkit.model.rows import Rows

if TYPE_CHECKING:
    from toolkit.journeys.doctor import CheckReport


FIRST = ("status", "check", "subject", "finding", "hint")


@click.command("doctor")
@FLEET
@CLUSTERS
@OUTPUT
def command(*, fleet: Path | None, clusters: tuple[str, ...], output: str) -> None:
    """
    Check this machine, the fleet file, the state directory and each cluster.

    Changes nothing. The output has no values of settings, so you can attach it to a bug report.
    Exit code: 0 no error (warnings are shown only), 1 an error and no usable cluster, 4 an error,
    but at least one cluster is usable.
    """
    from toolkit.journeys.doctor import doctor

    report = doctor(clusters, fleet)
    write_checks(report, output)
    sys.exit(report.exit_code)


def write_checks(report: CheckReport, output: str) -> None:
    """Write every row, as a check that is not shown would seem to be fine; count what is not."""
    columns = ("subject", "check", "status", "finding", "hint")
    table = Rows(dict.fromkeys(columns, "text"), [astuple(row) for row in report.rows])
    write_rows(table, output, important=FIRST, is_whole=True)
    found = Counter(row.status.value for row in report.rows)
    words = [counted(found["error"], "error"), counted(found["warn"], "warning")]
    click.echo(f"{', '.join(words)}, {found['unknown']} unknown", err=True)
