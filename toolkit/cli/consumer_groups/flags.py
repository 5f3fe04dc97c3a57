"""The flags, which of them go together, and which exclude each other."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import click

from toolkit.cli.change_command import APPROVAL
from toolkit.cli.changes.pause import HOLD_FOR, PREFER
from toolkit.cli.changes.reset import MODES, NEW_TOPICS, TOOL_MODE_FLAGS, past_end_option
from toolkit.cli.changes.resume import FORCE
from toolkit.cli.options import (
    CLUSTER,
    FLEET,
    OUTPUT,
    QUIET,
    Option,
    WholeNumber,
    group_names_option,
    topics_option,
)
from toolkit.errors import UsageError


def _flag(name: str, text: str) -> Option:
    return click.option(f"--{name}", is_flag=True, help=text)


def _optional(name: str, variable: str, text: str) -> Option:
    """Return an option with an optional value; without one it is ""."""
    return click.option(
        f"--{name}", variable, is_flag=False, flag_value="", metavar="[LIST]", help=text
    )


FILE = click.Path(path_type=Path, dir_okay=False)
CONNECTION = (
    click.option(
        "--bootstrap-server",
        metavar="HOST:PORT",
        help="Broker address. If the fleet file has this cluster, its settings, limits and "
        "protected groups apply. Alternative: --cluster.",
    ),
    click.option(
        "--command-config",
        type=FILE,
        help="Client settings: a properties file, Java's (stores in PEM) or librdkafka's.",
    ),
    click.option(
        "--timeout",
        type=WholeNumber(min=1),
        metavar="MS",
        help="Limit in milliseconds to connect and log in, and for each request. Default: 15000.",
    ),
)
ACTION_FLAGS = (
    _flag("list", "List the groups."),
    _flag("describe", "Show committed offsets and lag, --members, or --state."),
    _flag(
        "reset-offsets", "Reset committed offsets. Without --execute: only show the new offsets."
    ),
    _flag("delete-offsets", "Delete the committed offsets of topics."),
    _flag("delete", "Delete whole groups."),
    _flag("pause", "Pause partitions of a live group (KIP-1249), in the background."),
    _flag("resume", "Resume paused partitions."),
    _flag("paused-partitions", "List paused partitions."),
    click.option(
        "--validate-regex",
        metavar="REGEX",
        help="Check whether brokers accept a subscription regex (RE2).",
    ),
)
LOOKING = (
    _flag("all-groups", "All groups. For changes: all empty groups; live groups are skipped."),
    _flag("offsets", "With --describe: offsets and lag. The default."),
    _flag("members", "With --describe: the members."),
    _optional(
        "state",
        "state",
        "With --describe: show the group state. With --list: states, or only groups in these.",
    ),
    _optional(
        "type",
        "type_",
        "With --list: show group types, or list only these types, also share and streams.",
    ),
    _flag("verbose", "With --describe: more columns."),
)
EXECUTION = (
    _flag("execute", "Apply the change. Needs --reason or $OFFSETBOOK_REASON."),
    _flag("export", "Print the new offsets as CSV, for use with --from-file."),
)
OPTIONS: tuple[Option, ...] = (
    *CONNECTION,
    *ACTION_FLAGS,
    group_names_option("One; repeatable."),
    *LOOKING,
    topics_option(),
    _flag("all-topics", "All committed topics of the group."),
    *TOOL_MODE_FLAGS,
    NEW_TOPICS,
    past_end_option(None),
    HOLD_FOR,
    PREFER,
    FORCE,
    *EXECUTION,
    *APPROVAL,
    *(FLEET, CLUSTER, OUTPUT, QUIET),
)

TARGETS = frozenset(mode.replace("-", "_") for mode in MODES) - {"from_group"}
ANYWHERE = frozenset(
    {"bootstrap_server", "command_config", "timeout", "fleet", "cluster", "output", "quiet"}
)
GROUPS = frozenset({"groups", "all_groups"})
CHANGE = frozenset({"dry_run", "execute", "approve", "reason", "overrides"})
FITTING: dict[str, frozenset[str]] = {
    "list": frozenset({"state", "type_"}),
    "describe": GROUPS | {"offsets", "members", "state", "verbose"},
    "reset-offsets": TARGETS
    | CHANGE
    | GROUPS
    | {"topics", "all_topics", "new_topics", "past_end", "export"},
    "delete-offsets": CHANGE | {"groups", "topics"},
    "delete": CHANGE | GROUPS,
    "pause": CHANGE | {"groups", "topics", "pause_for", "prefer"},
    "resume": CHANGE | {"groups", "topics", "force"},
    "paused-partitions": GROUPS,
    "validate-regex": frozenset(),
}
# Of each of these sets an action takes one flag at most.
AT_MOST = (
    GROUPS,
    {"offsets", "members", "state"},
    {"topics", "all_topics"},
    TARGETS,
    {"dry_run", "execute"},
    {"dry_run", "approve"},
    {"export", "output"},
)
# For each action: of these sets one flag at least, and one for groups where it takes any.
AT_LEAST = {
    "reset-offsets": (TARGETS, {"topics", "all_topics", "from_file"}),
    "delete-offsets": ({"topics"},),
    "pause": ({"topics"},),
}
WRITTEN = {"groups": "group", "topics": "topic", "overrides": "override", "pause_for": "for"}


def check_flags(given: Collection[str]) -> str:
    """Return the one action of the command; raises UsageError if flags do not fit."""
    actions = [action for action in FITTING if action.replace("-", "_") in given]
    if len(actions) != 1:
        problem = f"{_spoken(actions)} exclude each other" if actions else "no action given"
        raise UsageError(problem, hint=f"exactly one of {_spoken(FITTING)}")
    (action,) = actions
    fitting = FITTING[action] | ANYWHERE | {action.replace("-", "_")}
    if lost := set(given) - fitting:
        raise UsageError(f"{_spoken(lost)} cannot be used with --{action}", hint="remove it")
    for flags in AT_MOST:
        if len(both := flags & set(given)) > 1:
            raise UsageError(f"{_spoken(both)} exclude each other", hint="give one of them")
    for flags in (GROUPS & fitting, *AT_LEAST.get(action, ())):
        if flags and not flags & set(given):
            raise UsageError(f"--{action} needs one of {_spoken(flags)}", hint="add it")
    return action


def _spoken(flags: Collection[str]) -> str:
    names = (WRITTEN.get(flag, flag).rstrip("_").replace("_", "-") for flag in flags)
    return ", ".join(f"--{name}" for name in sorted(names))
