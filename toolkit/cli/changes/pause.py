"""`offsetbook pause`: keep partitions of a live group from its members, while the others go on."""

from __future__ import annotations

from functools import partial

import click

from toolkit.cli.change_command import Planner, change_command
from toolkit.cli.cluster_options import only_group, opened
from toolkit.cli.command_target import CommandPlan, CommandTarget
from toolkit.cli.options import topics_option
from toolkit.model import Prefer

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


def make(
    asked: CommandTarget, *, topics: tuple[str, ...], hold_for: str, prefer: str, detach: bool
) -> CommandPlan:
    """Plan a pause of the one group that is named."""
    from toolkit.cli.hold_session import hold
    from toolkit.journeys.pause import pause

    group = only_group(asked)
    with opened(asked) as access:
        change = pause(access, group, topics, hold_for=hold_for, prefer=prefer)
    return CommandPlan(change, carry_out=partial(hold, detach=detach))


HELP = """Pause partitions of a live group; after a short interruption all others continue.

offsetbook joins the group as a regular member and takes over the partitions; no consumer is
restarted. It holds them until you resume them, or for the duration of --for. If it crashes, the
group resumes them after the session timeout. Without --detach it runs in the foreground: Ctrl-C
asks whether to continue in the background or to resume.
"""
planner = Planner("pause", HELP, make, OPTIONS, of_one_group=True)
command = change_command(planner)
