"""`offsetbook restore`: put offsets back that 'offsetbook export' saved."""

from __future__ import annotations

from pathlib import Path

import click

from toolkit.cli.change_command import CommandTarget, Planned, Planner, change_command
from toolkit.cli.facts import choose_cluster, read_facts
from toolkit.cli.options import topics_option

OPTIONS = (
    click.argument("saved_file", type=click.Path(path_type=Path, dir_okay=False)),
    topics_option(" Default: all that was saved."),
    click.option(
        "--into", default="", metavar="GROUP", help="Restore a single group under a name."
    ),
)


def make(asked: CommandTarget, *, saved_file: Path, topics: tuple[str, ...], into: str) -> Planned:
    """Plan to restore what a JSON file holds."""
    from toolkit.planning.changes.restore import plan_restore
    from toolkit.storage.offsets_files import read_offsets

    saved = read_offsets(saved_file)
    cluster = choose_cluster(asked, asked.cluster or saved.cluster)
    names = sorted({commit.group_id for commit in saved.commits} | ({into} - {""}))
    saved_topics = sorted({commit.topic for commit in saved.commits})
    facts = read_facts(asked, cluster, groups=names, topics=saved_topics)
    plan = plan_restore(facts, saved, groups=asked.groups, topics=topics, into=into)
    return Planned(plan, cluster, facts)


HELP = (
    "Put back the offsets in SAVED_FILE, which 'offsetbook export' wrote. Missing groups are made."
)
planner = Planner("restore", HELP, make, OPTIONS)
command = change_command(planner)
