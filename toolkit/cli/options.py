"""The options that reading commands share, handed to them as one value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click


@dataclass(frozen=True)
class Scope:
    """Which fleet, clusters and groups a command is about, and how it answers."""

    fleet: Path | None
    clusters: tuple[str, ...]
    groups: tuple[str, ...]
    output: str
    quiet: bool


OPTIONS = (
    click.option(
        "--fleet",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Fleet file. Default: $OFFSETBOOK_FLEET, ./fleet.yaml or the sandbox's.",
    ),
    click.option(
        "--cluster",
        "clusters",
        multiple=True,
        metavar="NAME",
        help="Only this cluster; repeatable. Default: every cluster of the fleet.",
    ),
    click.option(
        "--group",
        "groups",
        multiple=True,
        metavar="NAME",
        help="A group's name or a pattern such as 'pay*'; repeatable. Default: all groups.",
    ),
    click.option(
        "--output",
        type=click.Choice(["table", "json", "csv"]),
        default="table",
        show_default=True,
        help="How to write the result to stdout.",
    ),
    click.option(
        "--quiet",
        is_flag=True,
        help="On stderr only what went wrong.",
    ),
)


def scope_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the shared options; it receives them as its first argument, a `Scope`."""

    @wraps(command)
    def call(
        *,
        fleet: Path | None,
        clusters: tuple[str, ...],
        groups: tuple[str, ...],
        output: str,
        quiet: bool,
        **own: Any,
    ) -> None:
        command(Scope(fleet, clusters, groups, output, quiet), **own)

    decorated: Callable[..., None] = call
    for option in reversed(OPTIONS):
        decorated = option(decorated)
    return decorated
