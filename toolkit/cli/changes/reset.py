"""`offsetbook reset`: move the committed offsets of idle groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from toolkit.cli.change_command import CommandTarget, Planned, Planner, change_command
from toolkit.cli.facts import choose_cluster, read_facts, reading, required_groups
from toolkit.cli.options import topics_option
from toolkit.errors import NotFound, UsageError
from toolkit.model import TopicPartition
from toolkit.plan import Position
from toolkit.planning.changes.modes import MODES, WITHOUT_VALUE, parse_target
from toolkit.planning.changes.targets import Target

FLAGS = (
    click.option("--to-earliest", is_flag=True, help="To the oldest record there is."),
    click.option(
        "--to-latest",
        is_flag=True,
        help="To the log end offset, or the last stable offset while a transaction is open.",
    ),
    click.option("--to-offset", type=int, metavar="N", help="To one offset in every partition."),
    click.option("--shift-by", type=int, metavar="N", help="N records forward, or back: -N."),
    click.option("--to-datetime", metavar="TIME", help="To the first record since a time."),
    click.option("--by-duration", metavar="DURATION", help="So long back from now: P1D, 90m."),
    click.option(
        "--to-current",
        is_flag=True,
        help="Clamp offsets that are outside the log into it; all others stay. In Kafka's tool the "
        "flag of this name also commits where nothing is committed.",
    ),
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


def make(asked: CommandTarget, **given: Any) -> Planned:
    """Plan a reset."""
    from toolkit.journeys.change import change_facts
    from toolkit.planning.changes.reset import plan_reset

    groups = required_groups(asked)
    topics = given["topics"]
    if topics and given["all_topics"]:
        raise UsageError("--topic and --all-topics exclude each other", hint="leave one out")
    cluster = choose_cluster(asked)
    target = target_of(asked, given)
    with reading(asked, cluster) as progress:
        facts = change_facts.read_facts(
            cluster, groups=groups, topics=topics, target=target, on_progress=progress
        )
    plan = plan_reset(facts, target, groups=groups, topics=topics, new_topics=given["new_topics"])
    return Planned(plan, cluster, facts)


def target_of(asked: CommandTarget, given: Mapping[str, Any]) -> Target:
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
    return parse_target(mode, text, now=datetime.now(UTC), past_end=given["past_end"])


def _from_file(_asked: CommandTarget, path: Path) -> Target:
    from toolkit.planning.changes.from_offsets import from_offsets
    from toolkit.storage.offsets_files import read_offsets

    saved = read_offsets(path)
    return from_offsets(saved.rows, source=f"from-file {path}", cluster_id=saved.cluster_id)


def _from_group(asked: CommandTarget, name: str) -> Target:
    from toolkit.planning.changes.from_offsets import from_offsets

    facts = read_facts(asked, choose_cluster(asked), groups=[name])
    rows: Rows = {
        (None, TopicPartition(c.topic, c.partition)): Position.of(c)
        for c in facts.commits
        if c.group_id == name
    }
    if not rows:
        raise NotFound(f"group {name!r} has no committed offsets", hint="name another group")
    return from_offsets(rows, source=f"from-group {name}")


FROM: dict[str, Callable[[CommandTarget, Any], Target]] = {
    "from-file": _from_file,
    "from-group": _from_group,
}
TARGETS = (*MODES, *FROM)

HELP = "Move the committed offsets of idle groups; shows the plan first."
planner = Planner("reset", HELP, make, (*FLAGS, *SCOPE))
command = change_command(planner)
