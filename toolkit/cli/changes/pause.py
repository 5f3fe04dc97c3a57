"""`offsetbook pause`: keep partitions of a live group from its members, while the others go on."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from toolkit.cli.change_command import CommandTarget, Planned, Planner, change_command
from toolkit.cli.facts import choose_cluster, reading
from toolkit.cli.hold_session import hold, only_group
from toolkit.cli.options import topics_option
from toolkit.model import Prefer

if TYPE_CHECKING:
    from toolkit.model import Cluster

PREFER = click.option(
    "--prefer",
    type=click.Choice([prefer.value for prefer in Prefer]),
    default=Prefer.LOSSLESS.value,
    show_default=True,
    help="What matters most while it is captured, of KIP-848 groups: that no record comes twice, "
    "that only the owner stops, or that it is done at once.",
)
HOLD_FOR = click.option(
    "--for",
    "hold_for",
    metavar="DURATION",
    default="",
    help="How long to pause: 30m, 2h. Default: until it is resumed.",
)
OPTIONS = (
    topics_option(" A topic means all its partitions."),
    HOLD_FOR,
    PREFER,
    click.option(
        "--detach",
        is_flag=True,
        help="Hold in the background; return once the partitions are paused.",
    ),
)


def make(asked: CommandTarget, **given: object) -> Planned:
    """Plan a pause."""
    detach = bool(given.pop("detach"))
    planned = plan_on(choose_cluster(asked), asked, **given)  # type: ignore[arg-type] # click's own
    return replace(planned, carry_out=partial(hold, detach=detach))


def plan_on(
    cluster: Cluster, asked: CommandTarget, *, topics: tuple[str, ...], hold_for: str, prefer: str
) -> Planned:
    """Plan a pause of the one group that is named, on a cluster."""
    from toolkit.cli.change_flow import state_folder
    from toolkit.cli.run_notices import tell_left_behind
    from toolkit.journeys.pause import plan_group_pause
    from toolkit.planning.holds.hold_context import HoldTerms

    group, terms = only_group(asked), HoldTerms.read(prefer, hold_for)
    with reading(asked, cluster) as progress:
        progress.show("reading the group")
        found = plan_group_pause(
            cluster, group, topics=topics, terms=terms, state=state_folder(asked)
        )
    tell_left_behind(found.ended)  # here: an end is found, and so told, only once
    return Planned(found.plan, cluster, found.facts)


HELP = """Pause partitions of a live group; after a short interruption all others continue.

offsetbook joins the group as a regular member and takes over the partitions; no consumer is
restarted. It holds them until you resume them, or for the duration of --for. If it crashes, the
group resumes them after the session timeout. Without --detach it runs in the foreground: Ctrl-C
asks whether to continue in the background or to resume.
"""
planner = Planner("pause", HELP, make, OPTIONS, of_one_group=True)
command = change_command(planner)
