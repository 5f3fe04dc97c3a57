"""`offsetbook export`: save committed offsets to a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from toolkit.cli.change_command import CommandTarget
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
    from toolkit.cli.facts import choose_cluster, read_facts, required_groups
    from toolkit.cli.output import write_problems
    from toolkit.errors import NotFound
    from toolkit.model import select_groups
    from toolkit.storage.offsets_files import saved_offsets, write_csv, write_json

    asked = CommandTarget(output="table", **given)
    groups = required_groups(asked)
    facts = read_facts(asked, choose_cluster(asked))
    chosen, missing = select_groups(facts.groups, groups)
    if missing:
        raise NotFound(
            f"no group matches {missing[0]!r}; nothing was exported",
            hint="list the names with 'offsetbook groups list'",
        )
    saved = saved_offsets(facts, {group.group_id for group in chosen})
    if form == "json":
        write_json(out, saved)
    else:
        write_csv(out, saved.commits, with_group=len(chosen) > 1)
    if not asked.quiet:
        count = f"{len(saved.commits):,} offsets of {len(chosen):,} groups"
        click.echo(f"{count} are in {out}", err=True)
    write_problems([facts])
    sys.exit(PARTLY if facts.problems else 0)
