"""`offsetbook export`: save committed offsets to a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from toolkit.cli.command_target import CommandTarget
from toolkit.cli.options import CLUSTER, FLEET, QUIET, groups_option

PARTLY = 4


@click.command("export")
@FLEET
@CLUSTER
@groups_option()
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "csv"]),
    default="json",
    show_default=True,
    help=(
        "json includes cluster, metadata and leader epochs; csv is the format of "
        "kafka-consumer-groups.sh."
    ),
)
@QUIET
@click.argument("out", type=click.Path(path_type=Path, dir_okay=False))
def command(*, form: str, out: Path, **given: Any) -> None:
    """Export the committed offsets of groups in any state to the file OUT."""
    from toolkit.cli.cluster_options import opened, required_groups
    from toolkit.cli.output import write_problems
    from toolkit.journeys.restore import export
    from toolkit.storage.offsets_files import write_csv, write_json

    command = CommandTarget(output="table", **given)
    groups = required_groups(command)
    with opened(command) as access:
        saved, facts = export(access, groups)
    if form == "json":
        write_json(out, saved)
    else:
        write_csv(out, saved.commits, with_group=len(saved.types) > 1)
    if not command.quiet:
        count = f"{len(saved.commits):,} offsets of {len(saved.types):,} groups"
        click.echo(f"{count} are in {out}", err=True)
    write_problems([facts])
    sys.exit(PARTLY if facts.problems else 0)
