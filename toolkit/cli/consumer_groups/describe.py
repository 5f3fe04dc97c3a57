"""`--describe`: offsets and lag, members, or the state of groups; and `--paused-partitions`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.consumer_groups.cluster_and_groups import cluster_of, exact_names, opened_cluster
from toolkit.cli.consumer_groups.tool_tables import Cell, write_table
from toolkit.cli.output import PARTLY, echo_error, printable, write_problems, write_rows
from toolkit.errors import NotFound, ToolkitError, UsageError
from toolkit.model import Cluster, Group, GroupType, Member, Snapshot, TopicPartition
from toolkit.model.names import ExactName, typed_name
from toolkit.model.rows import Rows

if TYPE_CHECKING:
    from pathlib import Path

    from toolkit.report.lag_report import LagReport

Table = tuple[tuple[str, ...], list[Sequence[Cell]]]  # columns, and the rows of one group
NOBODY: tuple[str | None, ...] = (None, None, None)
MEMBER_COLUMNS = ("group", "member", "instance", "host", "client", "epoch", "assignment")
PAUSED_COLUMNS = ("GROUP", "TOPIC", "PARTITION", "HOLDER", "SINCE", "UNTIL", "HOW")


def run(given: dict[str, Any]) -> int:
    """Describe groups; 4 where one is missing or something could not be read."""
    if given["state"]:
        raise UsageError("with --describe, --state takes no value", hint="a value goes with --list")
    kind = "members" if given["members"] else "offsets"
    kind = "state" if given["state"] is not None else kind
    shows_lag = kind == "offsets" or (kind == "state" and given["output"] != "table")
    report = _read(given, offsets=shows_lag)
    snapshot = report.facts
    errors = _missing(snapshot, given["groups"])
    shares = [g.group_id for g in snapshot.groups if g.type is GroupType.SHARE]
    shares = shares if kind == "offsets" else []
    if shares and len(shares) == len(snapshot.groups):
        raise _has_no_offsets(shares[0], given["fleet"])
    if given["output"] == "table":
        _write_tables(report, kind, given)
    else:
        write_rows(_rows(report, kind), given["output"])
    if not given["quiet"]:
        _tell(snapshot.groups)
        if kind == "offsets":
            _tell_without_rows(report)
    write_problems([snapshot])
    errors += (_has_no_offsets(name, given["fleet"]) for name in shares)
    for error in errors:
        echo_error(error)
    return PARTLY if errors or snapshot.read_errors else 0


def _missing(snapshot: Snapshot, names: Sequence[str]) -> list[ToolkitError]:
    """Return an error for each name that no group has; raises it where there is no group."""
    known = {group.group_id for group in snapshot.groups}
    errors: list[ToolkitError] = [
        snapshot.no_such_group(name) for name in dict.fromkeys(names) if name not in known
    ]
    if errors and not snapshot.groups:
        write_problems([snapshot])
        raise errors[0]
    return errors


def _read(given: dict[str, Any], *, offsets: bool) -> LagReport:
    """Read the groups that are named and nothing of others, or all consumer groups."""
    from toolkit.journeys.lag import lag
    from toolkit.report.lag_report import LagReport

    with opened_cluster(given) as access:
        snapshot = lag(access, exact_names(given["groups"]), offsets=offsets).facts
    groups = tuple(g for g in snapshot.groups if given["groups"] or g.is_of_consumers)
    group_ids = {group.group_id for group in groups}
    commits = tuple(commit for commit in snapshot.commits if commit.group_id in group_ids)
    problems = tuple(p for p in snapshot.problems if p.group_id is None or p.group_id in group_ids)
    return LagReport(replace(snapshot, groups=groups, commits=commits, problems=problems))


def _has_no_offsets(name: str, fleet: Path | None) -> NotFound:
    from toolkit.report.run_command import offsetbook_command

    chosen = typed_name(ExactName(name))
    describe = offsetbook_command("groups describe", chosen, fleet_file=fleet)
    return NotFound(
        f"group {printable(name)!r} is a share group, which has no committed offsets",
        hint=f"'{describe}', or --members or --state",
    )


def _write_tables(report: LagReport, kind: str, given: dict[str, Any]) -> None:
    """Write a table for each group, with a blank line before it, as the tool does."""
    table_of: Callable[[Group], Table]
    verbose = given["verbose"]
    if kind == "offsets":
        table_of = _offsets_tables(report, verbose=verbose)
    elif kind == "members":
        table_of = partial(_members_table, verbose=verbose)
    else:
        table_of = partial(_state_table, addresses=_addresses(cluster_of(given)), verbose=verbose)
    for columns, rows in map(table_of, report.facts.groups):
        if rows or kind == "members":
            click.echo()
            write_table(columns, rows)


def _tell_without_rows(report: LagReport) -> None:
    """Say of live groups that have no rows why that is."""
    without = set(report.without_offsets)
    for group in report.facts.groups:
        if group.is_live and group.group_id in without:
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


def _offsets_tables(report: LagReport, *, verbose: bool) -> Callable[[Group], Table]:
    """Return one row for each partition that a group has committed or owns."""
    snapshot = report.facts
    rows: dict[str, list[Sequence[Cell]]] = {}
    epochs = {(c.group_id, c.topic, c.partition): c.leader_epoch for c in snapshot.commits}
    owners = {
        (group.group_id, partition): (member.member_id, member.host, member.client_id)
        for group in snapshot.groups
        for member in group.members
        for partition in member.assignment
    }
    for row in report.partition_rows().as_dicts():
        group, at = row["group"], TopicPartition(row["topic"], row["partition"])
        epoch = (epochs.get((group, *at)),) if verbose else ()
        numbers = (row[name] for name in ("committed", "log_end", "lag"))
        owner = owners.get((group, at), NOBODY)
        rows.setdefault(group, []).append((group, *at, *epoch, *numbers, *owner))
    epoch_column = ("LEADER-EPOCH",) if verbose else ()
    columns = (
        *("GROUP", "TOPIC", "PARTITION", *epoch_column, "CURRENT-OFFSET", "LOG-END-OFFSET"),
        *("LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"),
    )
    return lambda group: (columns, rows.get(group.group_id, []))


def _members_table(group: Group, *, verbose: bool) -> Table:
    """Return one row for each member, with an instance id if any member has one."""
    has_instances = any(member.instance_id for member in group.members)
    rows: list[Sequence[Cell]] = []
    for m in sorted(group.members, key=lambda m: (m.client_id, m.member_id)):
        instance = (m.instance_id,) if has_instances else ()
        more = (m.epoch, _assignment(m), None, None) if verbose else ()
        row = (m.member_id, *instance, m.host, m.client_id, len(m.assignment), *more)
        rows.append((group.group_id, *row))
    instance_column = ("GROUP-INSTANCE-ID",) if has_instances else ()
    columns = ("GROUP", "CONSUMER-ID", *instance_column, "HOST", "CLIENT-ID", "#PARTITIONS")
    more_columns = ("CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT")
    return (*columns, *(more_columns if verbose else ())), rows


def _assignment(member: Member) -> str:
    """Return `ta:0,1;tb:0`."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(member.assignment):
        by_topic.setdefault(topic, []).append(partition)
    return ";".join(f"{topic}:{','.join(map(str, found))}" for topic, found in by_topic.items())


def _state_table(group: Group, *, addresses: Mapping[int, str], verbose: bool) -> Table:
    address = addresses.get(group.coordinator_id or 0)
    at = f"{address}  ({group.coordinator_id})" if address else None
    epochs = (group.epoch, None) if verbose else ()
    members = len(group.members) if group.described else None
    row = (group.group_id, at, group.assignor, group.state, *epochs, members)
    columns = ("GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH") if verbose else ()
    first = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE")
    return (*first, *columns, "#MEMBERS"), [row]


def _addresses(cluster: Cluster) -> dict[int, str]:
    from toolkit.kafka_io.client.shared_connections import connected

    try:
        with connected(cluster) as connection:
            return connection.addresses
    except ToolkitError as exc:
        click.echo(f"where the coordinators are is not shown: {exc}", err=True)
        return {}


def _rows(report: LagReport, kind: str) -> Rows:
    if kind == "offsets":
        return report.partition_rows()
    if kind == "state":
        return report.state_rows
    rows = [
        (g.group_id, m.member_id, m.instance_id, m.host, m.client_id, m.epoch, _assignment(m))
        for g in report.facts.groups
        for m in g.members
    ]
    return Rows(dict.fromkeys(MEMBER_COLUMNS, "text"), rows)


def paused_partitions(given: dict[str, Any]) -> int:
    """List paused partitions of groups; exit code 4 if one is missing or could not be read."""
    from toolkit.journeys.paused import paused

    names = given["groups"]
    with opened_cluster(given) as access:
        report = paused(access, exact_names(names))
    facts, found = report.facts, report.plain_rows
    errors = _missing(facts, names)
    if given["output"] == "table":
        click.echo()
        write_table(PAUSED_COLUMNS, map(_paused_row, found.as_dicts()))
    else:
        write_rows(found, given["output"])
    write_problems([facts])
    for error in errors:
        echo_error(error)
    return PARTLY if errors or facts.problems else 0


def _paused_row(row: dict[str, Any]) -> Sequence[Cell]:
    instants = (row["paused_since"], row["paused_until"])
    times = [at and f"{at:%Y-%m-%dT%H:%M:%SZ}" for at in instants]
    holder = f"{row['paused_by']}@{row['host'].removeprefix('/')}"
    return (row["group"], row["topic"], row["partition"], holder, *times, row["hold_status"])
