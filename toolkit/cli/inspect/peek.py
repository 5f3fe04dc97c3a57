"""`offsetbook peek`: the records around a group's committed offsets."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from toolkit.cli.complete_names import complete_groups
from toolkit.cli.options import (
    CLUSTER,
    FLEET,
    GROUP_FLAGS,
    OUTPUT,
    QUIET,
    WholeNumber,
    topics_option,
)
from toolkit.cli.output import PARTLY, printable, write_frame
from toolkit.model.names import named

CHARACTERS_IN_A_TABLE = 200
FOR_PROGRAMS = ["cluster", "group", "key_form", "key_bytes", "value_bytes"]
# What gets room first on a narrow terminal.
FIRST = ("topic", "partition", "offset", "place", "value", "key", "at")


@click.command("peek")
@FLEET
@CLUSTER
@click.option(
    *GROUP_FLAGS,
    required=True,
    metavar="NAME",
    shell_complete=complete_groups,
    help="Group name.",
)
@topics_option(" Default: the partitions with the largest lag, at most 5.")
@click.option("--before", type=WholeNumber(0, 50), default=1, show_default=True)
@click.option("--after", type=WholeNumber(1, 50), default=2, show_default=True)
@click.option(
    "--save",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also save these records, byte for byte (JSON Lines with base64), to a new file.",
)
@OUTPUT
@QUIET
def command(  # noqa: PLR0913 - click hands every option over by name
    *,
    fleet: Path | None,
    cluster: str | None,
    group: str,
    topics: tuple[str, ...],
    save: Path | None,
    output: str,
    quiet: bool,
    **around: int,
) -> None:
    """
    Show the records before and after a group's committed offsets.

    Key, value and headers are shown as JSON, text or hex; long ones are truncated (see `notes`).
    `next` marks the next record the group will read. This command does not join the group and
    commits nothing. Records of open and aborted transactions are included.
    """
    from toolkit.journeys.cluster_access import ClusterAccess
    from toolkit.journeys.peek import peek
    from toolkit.storage.saved_records import check_new

    if save:
        check_new(save)
    found = peek(ClusterAccess.named(cluster or "", fleet), named(group), topics, **around)
    if found.chosen.left_out and not quiet:
        more = f"{found.chosen.left_out} more partitions have lag; select them with --topic"
        click.echo(more, err=True)
    is_table = output == "table"
    frame = found.frame(most_characters=CHARACTERS_IN_A_TABLE) if is_table else found.frame()
    frame = frame.drop(columns=FOR_PROGRAMS) if is_table else frame
    write_frame(frame, output, important=FIRST)
    for problem in found.around.problems:
        where = f"topic {printable(problem.topic)}, partition {problem.partition}"
        click.echo(f"could not read {problem.what} of {where}: {printable(problem.why)}", err=True)
    if save:
        click.echo(found.save(save), err=True)
    sys.exit(PARTLY if found.around.problems else 0)
