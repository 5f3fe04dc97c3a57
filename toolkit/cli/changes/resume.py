"""`offsetbook resume`: give paused partitions of a live group back to its members."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from toolkit.cli.change_command import CommandTarget, Planned, Planner, change_command
from toolkit.cli.facts import choose_cluster, reading
from toolkit.cli.hold_session import only_group
from toolkit.cli.options import topics_option

if TYPE_CHECKING:
    from toolkit.model import Cluster

FORCE_RULE = "foreign-hold"
FORCE = click.option(
    "--force",
    is_flag=True,
    help="Resume also what somebody else holds: --override foreign-hold, and recorded.",
)
OPTIONS = (topics_option(" Default: all that is paused."), FORCE)


def make(asked: CommandTarget, *, topics: tuple[str, ...], force: bool) -> Planned:
    """Plan a resume."""
    planned = plan_on(choose_cluster(asked), asked, topics=topics)
    return replace(planned, overrides=(FORCE_RULE,) if force else ())


def plan_on(cluster: Cluster, asked: CommandTarget, *, topics: tuple[str, ...]) -> Planned:
    """Plan a resume in the one group that is named, on a cluster."""
    from toolkit.journeys.pause import plan_group_resume

    group = only_group(asked)
    with reading(asked, cluster) as progress:
        found = plan_group_resume(cluster, group, topics=topics, on_progress=progress)
    return Planned(found.plan, cluster, found.facts)


HELP = "Give paused partitions of a live group back to its members; shows the plan first."
planner = Planner("resume", HELP, make, OPTIONS, of_one_group=True)
command = change_command(planner)
