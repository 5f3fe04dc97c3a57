"""Write the rows of checks, as `doctor` and `fleet check` do."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from toolkit.cli.output import write_frame
from toolkit.model.plurals import counted

if TYPE_CHECKING:
    from toolkit.journeys.doctor import CheckReport

FIRST = ("status", "check", "subject", "finding", "hint")


def write_checks(report: CheckReport, output: str) -> None:
    """Write every row, as a check that is not shown would seem to be fine; count what is not."""
    write_frame(report.frame, output, important=FIRST, is_whole=True)
    found = Counter(row.status.value for row in report.rows)
    words = [counted(found["error"], "error"), counted(found["warn"], "warning")]
    click.echo(f"{', '.join(words)}, {found['unknown']} unknown", err=True)
