"""`offsetbook export`: save committed offsets to a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from toolkit.cli.command_target import opened, required_groups
from toolkit.cli.options import CLUSTER, FLEET, QUIET, groups_option, scope_of
from toolkit.cli.output import (
    FORCE,
    OUTPUT_PATH,
    PARTLY,
    check_output_file,
    name_of,
    share_group_lines,
    write_output_file,
    write_problems,
)
from toolkit.model import GroupType
from toolkit.model.plurals import counted


@click.command("export")
@FLEET
@CLUSTER
@groups_option()
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "csv"]),
    help=(
        "json includes cluster, metadata and leader epochs; csv is the format of "
        "kafka-consumer-groups.sh. Default: csv for a file named .csv, else json."
    ),
)
@FORCE
@QUIET
@click.argument("out", type=OUTPUT_PATH)
def command(*, form: str | None, out: Path, force: bool, **given: Any) -> None:
    """Export the committed offsets of groups in any state to the file OUT; - is stdout."""
    from toolkit.journeys.restore import export
    from toolkit.storage.offsets_files import csv_text, json_text

    command = scope_of({"output": "table", **given})
    check_output_file(out, force=force)
    groups = required_groups(command)
    with opened(command) as access:
        saved, facts = export(access, groups)
    is_json = form == "json" if form else out.suffix.lower() != ".csv"
    text = json_text(saved) if is_json else csv_text(saved.commits, with_group=len(saved.types) > 1)
    write_output_file(out, text)
    if not command.quiet:
        shares = sorted(name for name, of in saved.types.items() if of is GroupType.SHARE)
        offsets = counted(len(saved.commits), "offset")
        groups_saved = counted(len(saved.types) - len(shares), "group")
        click.echo(f"saved {offsets} of {groups_saved} in {name_of(out)}", err=True)
        for line in share_group_lines(facts.cluster, shares):
            click.echo(line, err=True)
    write_problems([facts])
    sys.exit(PARTLY if facts.read_errors else 0)
