"""`offsetbook doctor`: what works on this machine and with each cluster, and what does not."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from toolkit.cli.inspect.check_table import write_checks
from toolkit.cli.options import CLUSTERS, FLEET, OUTPUT


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
