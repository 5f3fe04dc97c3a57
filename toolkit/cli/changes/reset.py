"""`offsetbook reset`: move the committed offsets of idle groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from toolkit.cli.change_command import CommandTarget, Planned, Planner, change_command
from toolkit.cli.facts import choose_cluster, read_facts, required_groups
from toolkit.cli.options import topics_option
from toolkit.errors import NotFound, UsageError
from toolkit.model import TopicPartition
from toolkit.plan import Position
from toolkit.planning.changes.by_time import ToDatetime
from toolkit.planning.changes.modes import MODES, WITHOUT_VALUE, parse_target
from toolkit.planning.changes.targets import Target

FLAGS = (
    click.option("--to-earliest", is_flag=True, help="To the oldest record there is."),
    click.option("--to-latest", is_flag=True, help="Behind the newest record."),
    click.option("--to-offset", type=int, metavar="N", help="To one offset in every partition."),
    click.option("--shift-by", type=int, metavar="N", help="N records forward, or back: -N."),
    click.option("--to-datetime", metavar="TIME", help="To the first record since a time."),
    click.option("--by-duration", metavar="DURATION", help="So long back from now: P1D, 90m."),
    click.option("--to-current", is_flag=True, help="Heal: back into the log where it is outside."),
    click.option(
        "--from-file",
        type=click.Path(path_type=Path, dir_okay=False),
        help="To the offsets in a CSV file (topic,partition,offset or with the group in front), or "
        "in a JSON file that 'offsetbook export' wrote.",
    ),
    click.option("--from-group", metavar="NAME", help="To the offsets of another group."),
)
SCOPE = (
    topics_option(" Default: all that is committed."),
    click.option("--all-topics", is_flag=True, help="All that is committed: the default, said."),
    click.option("--new-topics", is_flag=True, help="Also topics that the group never committed."),
    click.option(
        "--past-end",
        type=click.Choice(["latest", "keep", "fail"]),
        default="keep",
        show_default=True,
        help="What becomes of a partition that has no record as young as the time.",
    ),
)


Rows = dict[tuple[str | None, TopicPartition], int | Position]


@dataclass(frozen=True)
class Wanted:
    """A target, and what has to be read to plan for it."""

    target: Target
    topics: frozenset[str] = frozenset()
    at: datetime | None = None


def make(asked: CommandTarget, **given: Any) -> Planned:
    """Plan a reset."""
    from toolkit.planning.changes.reset import plan_reset
    from toolkit.planning.selection.scope import parse_topics

    groups = required_groups(asked)
    topics = given["topics"]
    if topics and given["all_topics"]:
        raise UsageError("--topic and --all-topics exclude each other", hint="leave one out")
    scopes = parse_topics(topics)
    cluster = choose_cluster(asked)
    wanted = wanted_of(asked, given)
    names = {scope.topic for scope in scopes} | wanted.topics
    facts = read_facts(asked, cluster, topics=sorted(names), at=wanted.at)
    plan = plan_reset(
        facts, wanted.target, groups=groups, topics=topics, new_topics=given["new_topics"]
    )
    return Planned(plan, cluster, facts)


def wanted_of(asked: CommandTarget, given: Mapping[str, Any]) -> Wanted:
    """Return the one target that the options name; raises UsageError."""
    values = {mode: given[mode.replace("-", "_")] for mode in TARGETS}
    # Not by equality: 0 is an offset to go to, False a flag that was not given.
    modes = [mode for mode, value in values.items() if value is not None and value is not False]
    if len(modes) != 1:
        flags = ", ".join(f"--{name}" for name in modes or TARGETS)
        problem = f"{flags} exclude each other" if modes else "where to?"
        raise UsageError(problem, hint="give exactly one of them" if modes else f"one of: {flags}")
    (mode,) = modes
    if read := FROM.get(mode):
        return read(asked, values[mode])
    text = "" if mode in WITHOUT_VALUE else str(values[mode])
    target = parse_target(mode, text, now=datetime.now(UTC), past_end=given["past_end"])
    return Wanted(target, at=target.at if isinstance(target, ToDatetime) else None)


def _from_file(_asked: CommandTarget, path: Path) -> Wanted:
    from toolkit.planning.changes.from_offsets import from_offsets
    from toolkit.storage.offsets_files import read_offsets

    saved = read_offsets(path)
    target = from_offsets(saved.rows, source=f"from-file {path}", cluster_id=saved.cluster_id)
    return Wanted(target, _topics(saved.rows))


def _from_group(asked: CommandTarget, name: str) -> Wanted:
    from toolkit.planning.changes.from_offsets import from_offsets

    facts = read_facts(asked, choose_cluster(asked), groups=[name])
    rows: Rows = {
        (None, TopicPartition(c.topic, c.partition)): Position.of(c)
        for c in facts.commits
        if c.group_id == name
    }
    if not rows:
        raise NotFound(f"group {name!r} has no committed offsets", hint="name another group")
    return Wanted(from_offsets(rows, source=f"from-group {name}"), _topics(rows))


def _topics(rows: Rows) -> frozenset[str]:
    return frozenset(partition.topic for _, partition in rows)


FROM: dict[str, Callable[[CommandTarget, Any], Wanted]] = {
    "from-file": _from_file,
    "from-group": _from_group,
}
TARGETS = (*MODES, *FROM)

HELP = "Move the committed offsets of idle groups; shows the plan first."
planner = Planner("reset", HELP, make, (*FLAGS, *SCOPE))
command = change_command(planner)
