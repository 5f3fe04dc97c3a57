"""The options that commands share, handed to them as one value."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from toolkit.cli.complete_names import complete_clusters, complete_groups
from toolkit.errors import UsageError
from toolkit.model.times import parse_duration


@dataclass(frozen=True)
class CommandScope:
    """Which fleet, clusters and groups a command is about, and how it answers."""

    fleet: Path | None
    clusters: tuple[str, ...]
    groups: tuple[str, ...]
    output: str
    quiet: bool

    @property
    def cluster(self) -> str:
        """The cluster of a command about one; "" where none is named."""
        return next(iter(self.clusters), "")

    @property
    def is_watched(self) -> bool:
        """Whether progress is shown: stderr is a terminal, and --quiet is not given."""
        return not self.quiet and sys.stderr.isatty()


Option = Callable[[Callable[..., None]], Callable[..., None]]

# How the options are written that many commands have: the same on every command that has one.
CLUSTER_FLAGS, GROUP_FLAGS = ("-c", "--cluster"), ("-g", "--group")
TOPIC_FLAGS, OUTPUT_FLAGS = ("-t", "--topic"), ("-o", "--output")


class WholeNumber(click.IntRange):
    """A number in ASCII digits: Python's int() also takes `1_0` and the digits of other scripts."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; a usage error names a text that is no number."""
        if isinstance(value, str) and not re.fullmatch(r"[+-]?[0-9]+", value):
            self.fail(f"{value!r} is not a whole number.", param, ctx)
        return super().convert(value, param, ctx)

    def _describe_range(self) -> str:
        return "" if self.min is self.max is None else super()._describe_range()


class Duration(click.ParamType[str]):
    """A duration such as 5s or 10m, for `parse_duration`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the text; a usage error names an invalid duration."""
        try:
            parse_duration(value)
        except UsageError as exc:
            self.fail(f"{exc}.", param, ctx)
        return value


FLEET: Option = click.option(
    "--fleet",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Fleet file. Default: $OFFSETBOOK_FLEET, ./fleet.yaml, the sandbox's, these two in the "
    "two folders above, or the user's.",
)
OUTPUT: Option = click.option(
    *OUTPUT_FLAGS,
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="Output format.",
)
QUIET: Option = click.option("--quiet", is_flag=True, help="No progress and no summary on stderr.")


def clusters_option(text: str) -> Option:
    """Return --cluster, which takes several names, with a help text; a shell completes them."""
    return click.option(
        *CLUSTER_FLAGS,
        "clusters",
        multiple=True,
        metavar="NAME",
        shell_complete=complete_clusters,
        help=text,
    )


def cluster_option(text: str) -> Option:
    """Return --cluster, which takes one name, with a help text; a shell completes it."""
    return click.option(*CLUSTER_FLAGS, metavar="NAME", shell_complete=complete_clusters, help=text)


CLUSTERS = clusters_option(
    "Only this cluster, by name or HOST:PORT; repeatable. Default: the whole fleet."
)
CLUSTER = cluster_option("Cluster name or HOST:PORT. Optional if the fleet file has only one.")


def groups_option(default: str = "") -> Option:
    """Return --group, which takes names and patterns; `default` says what none means."""
    text = f"Group name or pattern such as 'pay*'; repeatable.{default}"
    return group_names_option(text)


def group_names_option(text: str) -> Option:
    """Return --group with a help text; a shell completes the names."""
    return click.option(
        *GROUP_FLAGS,
        "groups",
        multiple=True,
        metavar="NAME",
        shell_complete=complete_groups,
        help=text,
    )


def topics_option(default: str = "") -> Option:
    """Return --topic, which takes scopes; `default` says what none means."""
    text = f"topic, topic:0,1,2 or topic:0-5; repeatable.{default}"
    return click.option(*TOPIC_FLAGS, "topics", multiple=True, metavar="TOPIC", help=text)


def with_options(command: Callable[..., None], options: Iterable[Option]) -> Callable[..., None]:
    """Give a command options, which its help shows in this order."""
    for option in reversed(list(options)):
        command = option(command)
    return command


OPTIONS = (FLEET, CLUSTERS, groups_option(" Default: all groups."), OUTPUT, QUIET)


def scope_of(given: dict[str, Any]) -> CommandScope:
    """Take the options that commands share out of those that were given."""
    cluster = given.pop("cluster", None)
    clusters = given.pop("clusters", None) or ((cluster,) if cluster else ())
    groups = given.pop("groups", ())
    return CommandScope(
        given.pop("fleet"), clusters, groups, given.pop("output"), given.pop("quiet")
    )


def scope_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the shared options; it gets them as its first argument, a `CommandScope`."""

    @wraps(command)
    def call(**given: Any) -> None:
        command(scope_of(given), **given)

    return with_options(call, OPTIONS)
