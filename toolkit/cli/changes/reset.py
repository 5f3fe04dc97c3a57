"""`offsetbook reset`: move the committed offsets of idle groups."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.change_command import Planner, change_command
from toolkit.cli.command_target import opened, required_groups
from toolkit.cli.options import CommandScope, Option, WholeNumber, topics_option
from toolkit.errors import UsageError

if TYPE_CHECKING:
    from toolkit.journeys.change.planned_change import PlannedChange
    from toolkit.journeys.reset import RequestedTarget


def past_end_option(default: str | None) -> Option:
    """Return the option for a time after the last record; without a default, as in Kafka's tool."""
    return click.option(
        "--past-end",
        type=click.Choice(["latest", "keep", "fail"]),
        default=default,
        show_default=True if default else "latest",
        help="What to do if no record is at or after the timestamp.",
    )


TOOL_MODE_FLAGS = (  # those of `offsetbook consumer-groups` too
    click.option("--to-earliest", is_flag=True, help="Reset to the log start offset."),
    click.option(
        "--to-latest",
        is_flag=True,
        help="Reset to the log end offset, or the last stable offset while a transaction is open.",
    ),
    click.option(
        "--to-offset", type=WholeNumber(), metavar="N", help="Reset every partition to offset N."
    ),
    click.option(
        "--shift-by",
        type=WholeNumber(),
        metavar="N",
        help="Shift the committed offset by N; negative N moves it back.",
    ),
    click.option(
        "--to-datetime",
        metavar="TIME",
        help="Reset to the first record at or after TIME, such as '2026-03-01 10:00+02:00'.",
    ),
    click.option(
        "--by-duration",
        metavar="DURATION",
        help="Reset to the first record at or after DURATION ago, such as P1D or 90m.",
    ),
    click.option(
        "--to-current",
        is_flag=True,
        help="Clamp offsets that are outside the log into it; all others stay. In Kafka's tool the "
        "flag of this name also commits where nothing is committed.",
    ),
    click.option(
        "--clear-metadata",
        is_flag=True,
        help="Keep every offset, and clear the commit metadata beside it.",
    ),
    click.option(
        "--from-file",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Reset to the offsets in FILE: CSV (topic,partition,offset or "
        "group,topic,partition,offset), or JSON from 'offsetbook export'.",
    ),
)
MODE_FLAGS = (
    *TOOL_MODE_FLAGS,
    click.option(
        "--from-group", metavar="NAME", help="Reset to the committed offsets of another group."
    ),
)
NEW_TOPICS = click.option(
    "--new-topics",
    is_flag=True,
    help="Also commit offsets for topics the group has never committed.",
)
SCOPE = (
    topics_option(" Default: all committed partitions."),
    click.option("--all-topics", is_flag=True, help="All committed partitions (default)."),
    NEW_TOPICS,
    past_end_option("keep"),
)
MODES = (
    *("to-earliest", "to-latest", "to-offset", "shift-by", "to-datetime", "by-duration"),
    *("to-current", "clear-metadata", "from-file", "from-group"),
)


def make(command: CommandScope, **given: Any) -> PlannedChange:
    from toolkit.journeys.reset import reset

    groups = required_groups(command)
    to = target_of(given)
    with opened(command) as access:
        return reset(access, groups, to=to, topics=given["topics"], new_topics=given["new_topics"])


def target_of(given: Mapping[str, Any]) -> RequestedTarget:
    """Return the one target that the options name; raises UsageError."""
    from toolkit.journeys.reset import target

    if given["topics"] and given["all_topics"]:
        raise UsageError("--topic and --all-topics exclude each other", hint="leave one out")
    values = {mode: given[mode.replace("-", "_")] for mode in MODES}
    # Not by equality: 0 is an offset to go to, False a flag that was not given.
    modes = [mode for mode, value in values.items() if value is not None and value is not False]
    if len(modes) != 1:
        flags = ", ".join(f"--{name}" for name in modes or MODES)
        problem = f"{flags} exclude each other" if modes else "no target given"
        raise UsageError(problem, hint="give exactly one of them" if modes else f"one of: {flags}")
    (mode,) = modes
    text = "" if values[mode] is True else str(values[mode])
    return target(mode, text, past_end=given["past_end"])


HELP = "Reset the committed offsets of empty groups. Shows the plan first."
planner = Planner("reset", HELP, make, (*MODE_FLAGS, *SCOPE))
command = change_command(planner)
