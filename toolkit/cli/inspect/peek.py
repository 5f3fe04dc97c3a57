"""`offsetbook peek`: the records around a group's committed offsets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toolkit.cli.options import CLUSTER, FLEET, OUTPUT, QUIET, topics_option
from toolkit.cli.output import printable, write_frame
from toolkit.errors import NotFound

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.model import Cluster, TopicPartition

CHARACTERS_IN_A_TABLE = 200
MOST_LAGGING = 5  # partitions that are read by default


@click.command("peek")
@FLEET
@CLUSTER
@click.option("--group", required=True, metavar="NAME", help="Group name.")
@topics_option(" Default: the partitions with the largest lag, at most 5.")
@click.option("--before", type=click.IntRange(0, 50), default=1, show_default=True)
@click.option("--after", type=click.IntRange(1, 50), default=2, show_default=True)
@OUTPUT
@QUIET
def command(  # noqa: PLR0913 - click hands every option over by name
    *,
    fleet: Path | None,
    cluster: str | None,
    group: str,
    topics: tuple[str, ...],
    before: int,
    after: int,
    output: str,
    quiet: bool,
) -> None:
    """
    Show the records before and after a group's committed offsets.

    Key, value and headers are shown as JSON, text or hex; long ones are truncated (see `notes`).
    `next` marks the next record the group will read. This command does not join the group and
    commits nothing. Records of open and aborted transactions are included.
    """
    from toolkit.journeys.cluster_access import find_cluster
    from toolkit.kafka_io.logs.records_around import read_records_around
    from toolkit.planning.diagnosis.record_text import MOST_CHARACTERS, records_frame

    chosen = find_cluster(cluster or "", fleet)
    positions = _positions(chosen, group, topics, quiet=quiet)
    around = read_records_around(chosen, positions, before=before, after=after)
    most = CHARACTERS_IN_A_TABLE if output == "table" else MOST_CHARACTERS
    frame = records_frame(around.records, positions, most_characters=most)
    frame.insert(0, "group", group)
    frame.insert(0, "cluster", chosen.name)
    write_frame(_for_people(frame) if output == "table" else frame, output)
    for problem in around.problems:
        where = f"topic {printable(problem.topic)}, partition {problem.partition}"
        click.echo(f"could not read {problem.what} of {where}: {printable(problem.why)}", err=True)
    sys.exit(4 if around.problems else 0)


def _positions(
    cluster: Cluster, group: str, topics: tuple[str, ...], *, quiet: bool
) -> dict[TopicPartition, int]:
    """Return the committed offsets to read around; raises NotFound if there are none."""
    from toolkit.kafka_io.one_group import read_one_group
    from toolkit.model import TopicPartition
    from toolkit.planning.frames.snapshot_frames import offsets_frame
    from toolkit.planning.lag.lag import with_lag
    from toolkit.planning.selection.scope import parse_topics

    scopes = parse_topics(topics)
    frame = with_lag(offsets_frame(read_one_group(cluster, group).facts))
    frame = frame.dropna(subset=["committed"]).sort_values("lag", ascending=False, kind="stable")
    committed = {
        TopicPartition(row["topic"], row["partition"]): (int(row["committed"]), row["lag"])
        for row in frame.astype(object).to_dict("records")
    }
    if scopes:
        chosen = {p: at for p, (at, _) in committed.items() if any(p in s for s in scopes)}
    else:
        # An offset without a lag may be out of range: include it.
        chosen = {p: at for p, (at, lag) in committed.items() if lag != 0}
    if not chosen:
        what = ", ".join(topics) if topics else "partitions with lag"
        raise NotFound(
            f"group {printable(group)!r} has no committed offset for {what}",
            hint="use another --topic; see 'offsetbook groups describe'",
        )
    shown = chosen if scopes else dict(list(chosen.items())[:MOST_LAGGING])
    if len(shown) < len(chosen) and not quiet:
        more = len(chosen) - len(shown)
        click.echo(f"{more} more partitions have lag; select them with --topic", err=True)
    return shown


def _for_people(frame: pd.DataFrame) -> pd.DataFrame:
    """Drop columns for programs; a table has one line per record."""
    return frame.drop(columns=["cluster", "group", "key_form", "key_bytes", "value_bytes"])
