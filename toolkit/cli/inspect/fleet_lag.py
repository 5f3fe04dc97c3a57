"""`offsetbook fleet-lag`: lag, status, trend and expiry of many clusters, computed by Spark."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.options import CLUSTERS, FLEET, OUTPUT, QUIET, groups_option
from toolkit.cli.output import PARTLY, echo_error, printable, write_frame, write_rows
from toolkit.cli.progress_line import ProgressLine
from toolkit.errors import NotFound
from toolkit.model.groups import all_meant
from toolkit.model.rows import Rows

if TYPE_CHECKING:
    import pandas as pd

SHOWN = {
    "groups": [
        *("cluster", "group", "status", "worst_status", "trend", "lag", "unknown_lag_partitions"),
        *("time_lag_s", "lost"),
    ],
    "partitions": [
        *("cluster", "group", "topic", "partition", "status", "member_state", "lag"),
        *("time_lag_s", "expires_at", "status_why"),
    ],
}
# What gets room first on a narrow terminal.
FIRST = (
    *("cluster", "group", "topic", "partition", "status", "lag", "time_lag_s", "trend"),
    *("status_why", "lost", "unknown_lag_partitions"),
)
ALL = "activity", "groups", "leftovers", "partitions"


@click.command("fleet-lag")
@FLEET
@CLUSTERS
@groups_option(" Default: all groups.")
@click.option("--show", type=click.Choice(ALL), default="groups", show_default=True)
@click.option(
    "--window",
    default="10m",
    show_default=True,
    help=("Time window for trends, such as 10m or 1h."),
)
@click.option(
    "--history",
    default="",
    metavar="URL",
    help="Directory or URL for stored results; later runs read only new records.",
)
@click.option(
    "--full",
    is_flag=True,
    help=("Read everything, even where an incremental read would be enough."),
)
@click.option(
    "--master", default="", help="Spark master URL. Default: local Spark in this process."
)
@click.option("--help-columns", is_flag=True, help="Show column descriptions and exit.")
@OUTPUT
@QUIET
def command(  # noqa: PLR0913 - one a flag
    *,
    fleet: Path | None,
    clusters: tuple[str, ...],
    groups: tuple[str, ...],
    show: str,
    master: str,
    help_columns: bool,
    output: str,
    quiet: bool,
    **how: Any,
) -> None:
    """
    Show lag, status and trend of every group on every cluster, largest lag first.

    The table shows the main columns; json and csv have all columns.
    """
    if help_columns:
        _show_columns(show, output)
        return
    from toolkit.journeys.fleet import fleet as read_fleet
    from toolkit.spark.fleet_options import FleetOptions

    options = FleetOptions.parse(**how)
    with ProgressLine("fleet", visible=not quiet and sys.stderr.isatty()) as line:
        frames = read_fleet(
            clusters, fleet_file=fleet, options=options, spark_master=master, on_step=line.show
        ).frames
    frame, missing = _chosen(getattr(frames, show), frames.groups, groups)
    unread = frames.problems.to_dict("records")
    errors = [_not_found(name, is_known=not unread) for name in missing]
    if errors and not unread and len(errors) == len(groups):
        raise errors[0]
    shown = frame[SHOWN[show]] if output == "table" and show in SHOWN else frame
    write_frame(shown, output, important=FIRST)
    for problem in unread:
        subject = f"cluster {problem['cluster']}: " if problem["cluster"] else ""
        click.echo(f"{subject}{printable(problem['problem'])}", err=True)
    for error in errors:
        echo_error(error)
    sys.exit(PARTLY if unread or errors else 0)


def _chosen(
    frame: pd.DataFrame, every_group: pd.DataFrame, names: tuple[str, ...]
) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows of groups that match one of the names, and the names without any group."""
    if not names:
        return frame, []
    # A group that has no leftovers, for example, is still one.
    known = {*every_group["group"], *frame["group"]}
    meant, missing = all_meant(names, known)
    return frame[frame["group"].isin(meant)], missing


def _not_found(name: str, *, is_known: bool) -> NotFound:
    hidden = "" if is_known else "; what could not be read may hide it"
    return NotFound(
        f"no group with committed offsets matches {name!r}{hidden}",
        hint="list the names with 'offsetbook groups list'",
    )


def _show_columns(show: str, output: str) -> None:
    from toolkit.spark.columns import MEANING
    from toolkit.spark.schemas import RESULTS

    rows = [(field.name, str(field.type), MEANING[field.name]) for field in RESULTS[show]]
    write_rows(Rows(dict.fromkeys(("column", "type", "meaning"), "text"), rows), output)
