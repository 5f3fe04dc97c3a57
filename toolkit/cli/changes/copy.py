"""`offsetbook copy` and `offsetbook rename`: a group's offsets under another name or elsewhere."""

from __future__ import annotations

from functools import partial

import click

from toolkit.cli.change_command import CommandTarget, Planned, Planner, change_command
from toolkit.cli.facts import choose_cluster, read_facts, required_groups
from toolkit.cli.options import topics_option
from toolkit.errors import UsageError

TO = click.option("--to", "target", required=True, metavar="GROUP", help="The group to copy to.")
OPTIONS = (
    TO,
    topics_option(" Default: all that is committed."),
    click.option("--to-cluster", "mirror", metavar="NAME", help="Another cluster: a mirror."),
    click.option(
        "--by",
        type=click.Choice(["offset", "time"]),
        default="time",
        show_default=True,
        help="To a mirror: equal offsets, or the record of the same time. By time no record is "
        "skipped; some that were read may come again.",
    ),
    click.option(
        "--topic-prefix",
        "prefix",
        default="",
        metavar="TEXT",
        help="What the mirror puts before the names of topics, such as 'eu.'.",
    ),
)


def make(
    asked: CommandTarget, *, target: str, topics: tuple[str, ...], mirror: str | None, **way: str
) -> Planned:
    """Plan a copy within a cluster, or to a mirror."""
    from toolkit.journeys.copy import CopyWish, plan_group_copy

    wish = CopyWish(_source(asked), target, topics, by=way["by"], topic_prefix=way["prefix"])
    cluster = choose_cluster(asked)
    other = choose_cluster(asked, mirror) if mirror is not None else None
    plan, read = plan_group_copy(cluster, wish, mirror=other, read=partial(read_facts, asked))
    return Planned(plan, other or cluster, read[-1])


def make_rename(asked: CommandTarget, *, target: str) -> Planned:
    """Plan to rename a group: copy, verify, delete."""
    from toolkit.planning.changes.copy import plan_rename

    source = _source(asked)
    cluster = choose_cluster(asked)
    facts = read_facts(asked, cluster, groups=[source, target])
    return Planned(plan_rename(facts, source=source, target=target), cluster, facts)


def _source(asked: CommandTarget) -> str:
    groups = required_groups(asked)
    if len(groups) > 1:
        raise UsageError(f"{len(groups)} groups are named", hint="copy them one by one")
    return groups[0]


HELP = "Copy the offsets of --group to a new or idle group, here or on a mirror."
RENAME_HELP = (
    "Copy the offsets of the idle --group to a new name, verify, and delete the old group."
)
planner = Planner("copy", HELP, make, OPTIONS)
rename_planner = Planner("rename", RENAME_HELP, make_rename, (TO,))
command = change_command(planner)
