"""Write the rows of checks, as `doctor` and `fleet check` do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit.cli.output import write_frame

if TYPE_CHECKING:
    from toolkit.journeys.doctor import CheckReport

FIRST = ("status", "check", "subject", "finding", "hint")


def write_checks(report: CheckReport, output: str) -> None:
    """Write every row: a check that is not shown would look like one that found nothing."""
    write_frame(report.frame, output, important=FIRST, is_whole=True)
