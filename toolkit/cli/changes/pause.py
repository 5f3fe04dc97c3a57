"""`offsetbook pause`: keep partitions of a live group from its members, while the others go on."""

from __future__ import annotations

from functools import partial

import click

from toolkit.cli.change_command import Planner, change_command
from toolkit.cli.cluster_options import only_group, opened
from toolkit.cli.command_target import CommandPlan, CommandTarget
from toolkit.cli.options import topics_option
from toolkit.model import CaptureMode

PREFER = click.option(
    "--prefer",
    type=click.Choice([prefer.value for prefer in CaptureMode]),
    default=CaptureMode.LOSSLESS.value,
    show_default=True,
    help="How to capture partitions of a KIP-848 group: lossless (no redelivered records), quiet "
    "(only the current owner stops), or fast (taken over within a second).",
)
HOLD_FOR = click.option(
    "--for",
    "pause_for",
    metavar="DURATION",
    default="",
    help="Pause duration, such as 30m or 2h. Default: until resumed.",
)
COMMIT_MISSING = click.option(
    "--commit-missing",
    metavar="earliest|latest|OFFSET",
    default="",
    help="Position to commit first for partitions without a committed offset. Without it they "
    "block the pause: who gets them again starts according to auto.offset.reset.",
)
OPTIONS = (
    topics_option(
        " Without partition numbers: all partitions of the topic. Leave it out for a Streams "
        "application (KIP-1071), which is paused as a whole."
    ),
    HOLD_FOR,
    PREFER,
    COMMIT_MISSING,
    click.option(
        "--detach",
        is_flag=True,
        help="Hold in the background; return once the partitions are paused.",
    ),
)


def make(
    asked: CommandTarget, *, topics: tuple[str, ...], detach: bool, **terms: str
) -> CommandPlan:
    """Plan a pause of the one group that is named."""
    from toolkit.cli.hold_session import hold
    from toolkit.journeys.pause import pause

    group = only_group(asked)
    with opened(asked) as access:
        change = pause(access, group, topics, **terms)
    return CommandPlan(change, carry_out=partial(hold, detach=detach))


HELP = """Pause partitions of a live group; after a short interruption all others continue.

offsetbook joins the group as a regular member and takes over the partitions; no consumer is
restarted. It holds them until you resume them, or for the duration of --for. If it crashes, the
group resumes them after the session timeout. Without --detach it runs in the foreground: Ctrl-C
asks whether to continue in the background or to resume.
"""
planner = Planner("pause", HELP, make, OPTIONS, of_one_group=True)
command = change_command(planner)
