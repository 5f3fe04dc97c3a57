"""`--describe`: committed offsets and lag, members, or the state of groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.cluster_options import opened
from toolkit.cli.consumer_groups.connection_flags import cluster_of, command_target_of
from toolkit.cli.consumer_groups.describe_tables import (
    FRAMES,
    members_table,
    offsets_table,
    states_table,
)
from toolkit.cli.consumer_groups.exact_names import exactly, named
from toolkit.cli.consumer_groups.tool_tables import write_table
from toolkit.cli.output import printable, write_frame, write_problems
from toolkit.errors import NotFound, UsageError
from toolkit.model import Cluster, Group, GroupType

if TYPE_CHECKING:
    from toolkit.journeys.lag import LagReport

PARTLY = 4


def run(given: dict[str, Any]) -> int:
    """Describe groups; 4 where one is missing or something could not be read."""
    if given["state"]:
        raise UsageError("with --describe, --state takes no value", hint="a value goes with --list")
    cluster = cluster_of(given)
    kind = "members" if given["members"] else "offsets"
    kind = "state" if given["state"] is not None else kind
    shows_lag = kind == "offsets" or (kind == "state" and given["output"] != "table")
    report = _read(cluster, given, offsets=shows_lag)
    snapshot = report.facts
    missing = exactly(snapshot, given["groups"])
    if missing and not snapshot.groups:
        raise _not_found(missing[0], cluster)
    shares = _share_groups(snapshot.groups) if kind == "offsets" else []
    if shares and len(shares) == len(snapshot.groups):
        raise _has_no_offsets(shares[0])
    if given["output"] == "table":
        _write_tables(report, cluster, kind, verbose=given["verbose"])
    else:
        write_frame(FRAMES[kind](report), given["output"])
    if not given["quiet"]:
        _tell(snapshot.groups)
        if kind == "offsets":
            _tell_without_rows(report)
    write_problems([snapshot])
    for name in missing:
        click.echo(f"error: {_not_found(name, cluster)}", err=True)
    for name in shares:
        click.echo(f"error: {_has_no_offsets(name)}", err=True)
    return PARTLY if missing or shares or snapshot.read_errors else 0


def _read(cluster: Cluster, given: dict[str, Any], *, offsets: bool) -> LagReport:
    """Read the groups that are named and nothing of others, or all consumer groups."""
    from toolkit.journeys.lag import LagReport, lag

    with opened(command_target_of(given), cluster) as access:
        snapshot = lag(access, named(given["groups"]), offsets=offsets).facts
    if given["groups"]:
        wanted = set(given["groups"])
        groups = [group for group in snapshot.groups if group.group_id in wanted]
    else:
        groups = [group for group in snapshot.groups if group.is_of_consumers]
    kept = {group.group_id for group in groups}
    commits = tuple(commit for commit in snapshot.commits if commit.group_id in kept)
    problems = tuple(p for p in snapshot.problems if p.group_id is None or p.group_id in kept)
    narrowed = replace(snapshot, groups=tuple(groups), commits=commits, problems=problems)
    return LagReport(narrowed)


def _not_found(name: str, cluster: Cluster) -> NotFound:
    hint = "'offsetbook consumer-groups --list' shows the names"
    return NotFound(f"cluster {cluster.name} has no group {printable(name)!r}", hint=hint)


def _share_groups(groups: Sequence[Group]) -> list[str]:
    return [group.group_id for group in groups if group.type is GroupType.SHARE]


def _has_no_offsets(name: str) -> NotFound:
    return NotFound(
        f"group {printable(name)!r} is a share group, which has no committed offsets",
        hint=f"'offsetbook groups describe {printable(name)}', or --members or --state",
    )


def _write_tables(report: LagReport, cluster: Cluster, kind: str, *, verbose: bool) -> None:
    """Write a table for each group, with a blank line before it, as the tool does."""
    if kind == "offsets":
        table = offsets_table(report, verbose=verbose)
    elif kind == "members":
        table = members_table(verbose=verbose)
    else:
        table = states_table(cluster, verbose=verbose)
    for group in report.facts.groups:
        columns, rows = table.of(group)
        if rows or kind == "members":
            click.echo()
            write_table(columns, rows)


def _tell_without_rows(report: LagReport) -> None:
    """Say of live groups that have no rows why that is."""
    with_rows = set(report.partitions["group"])
    for group in report.facts.groups:
        if group.is_live and group.type is not GroupType.SHARE and group.group_id not in with_rows:
            name = printable(group.group_id)
            click.echo(f"Group '{name}' has no committed offsets.", err=True)


def _tell(groups: Sequence[Group]) -> None:
    """Say of groups that explain nothing on stdout why that is, in the tool's words."""
    for group in groups:
        name = printable(group.group_id)
        if not group.is_live:
            click.echo(f"Consumer group '{name}' has no active members.", err=True)
        elif group.described and not group.members:
            click.echo(f"Consumer group '{name}' is rebalancing.", err=True)
