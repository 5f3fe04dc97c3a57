"""`--list`: the consumer groups, with their types and states."""

from __future__ import annotations

from typing import Any

import click

from toolkit.cli.consumer_groups.cluster_and_groups import cluster_of
from toolkit.cli.consumer_groups.tool_tables import write_table
from toolkit.cli.output import PARTLY, printable, write_rows
from toolkit.errors import UsageError
from toolkit.model import Group, GroupState, GroupType
from toolkit.model.rows import Rows

# Those of the tool, which are listed without --type, and those that it refuses.
TYPES = {"Classic": {GroupType.CLASSIC, GroupType.SIMPLE}, "Consumer": {GroupType.CONSUMER}}
MORE_TYPES = {"Share": {GroupType.SHARE}, "Streams": {GroupType.STREAMS}}
STATES = [state.value for state in GroupState]


def run(given: dict[str, Any]) -> int:
    """List the groups and return the exit code: 4 where some could not be listed."""
    from toolkit.kafka_io.client.shared_connections import connected
    from toolkit.kafka_io.groups.listing import find_hidden, list_groups

    states = _chosen("state", given["state"], STATES) or {*STATES}
    types = _chosen("type", given["type_"], [*TYPES, *MORE_TYPES]) or {*TYPES}
    with connected(cluster_of(given)) as connection:
        listed, problems = list_groups(connection)
        problems += [p for p in find_hidden(connection) if p.hides_groups]
    groups = [
        group
        for group in listed
        if (group.is_of_consumers or type_of(group) in MORE_TYPES)
        and type_of(group) in types
        and group.state.value in states
    ]
    _write(groups, given)
    for problem in problems:
        click.echo(f"could not list {problem.what}: {printable(problem.why)}", err=True)
    if problems:
        return PARTLY if listed else 1
    return 0


def type_of(group: Group) -> str:
    """Return the tool's word for a type, which does not know simple groups."""
    words = {**TYPES, **MORE_TYPES}
    return next((word for word, kinds in words.items() if group.type in kinds), "Unknown")


def _chosen(name: str, text: str | None, known: list[str]) -> set[str]:
    """Return the words of a list that are meant; none without a list. Case does not matter."""
    if not text:
        return set()
    by_lower = {word.lower(): word for word in known}
    words = [word.strip().lower() for word in text.split(",")]
    if unknown := [word for word in words if word not in by_lower]:
        hint = f"one or more of: {', '.join(known)}"
        raise UsageError(f"--{name} does not know {', '.join(map(repr, unknown))}", hint=hint)
    return {by_lower[word] for word in words}


def _write(groups: list[Group], given: dict[str, Any]) -> None:
    if given["output"] != "table":
        rows = [(group.group_id, str(group.type), str(group.state)) for group in groups]
        write_rows(Rows(dict.fromkeys(("group", "type", "state"), "text"), rows), given["output"])
        return
    columns: dict[str, list[str]] = {"GROUP": [group.group_id for group in groups]}
    if given["type_"] is not None:
        columns["TYPE"] = [type_of(group) for group in groups]
    if given["state"] is not None:
        columns["STATE"] = [group.state for group in groups]
    if len(columns) == 1:
        for group in groups:
            click.echo(printable(group.group_id))
    else:
        write_table(tuple(columns), zip(*columns.values(), strict=True))
