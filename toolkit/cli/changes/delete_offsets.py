"""`offsetbook delete-offsets`: delete committed offsets (KIP-496)."""

from __future__ import annotations

from typing import Any

import click

from toolkit.cli.change_command import CommandTarget, Planned, Planner, change_command
from toolkit.cli.facts import choose_cluster, read_facts, reading, required_groups
from toolkit.cli.options import topics_option

OPTIONS = (
    topics_option(),
    click.option("--all-topics", is_flag=True, help="Everything that an idle group committed."),
    click.option(
        "--unsubscribed",
        is_flag=True,
        help="What live groups committed of topics that they do not subscribe to. Groups about "
        "which that cannot be said are passed over. What is seen left behind is kept in the state "
        "folder, for the two conditions below.",
    ),
    click.option(
        "--unsubscribed-for",
        "left_for",
        metavar="DURATION",
        help="Of that, only what was seen left behind for so long: 14d. By what earlier calls with "
        "--unsubscribed saw.",
    ),
    click.option(
        "--seen-in-runs",
        "in_runs",
        type=click.IntRange(min=0),
        default=0,
        metavar="N",
        help="Of that, only what so many calls in a row saw left behind, this one among them.",
    ),
)


def make(
    asked: CommandTarget,
    *,
    topics: tuple[str, ...],
    all_topics: bool,
    unsubscribed: bool,
    **age: Any,
) -> Planned:
    """Plan to delete offsets."""
    from toolkit.errors import UsageError
    from toolkit.journeys.change import change_facts
    from toolkit.planning.changes.delete_offsets import plan_delete_offsets

    groups = required_groups(asked)
    if bool(topics) + all_topics + unsubscribed > 1:
        raise UsageError(
            "--topic, --all-topics and --unsubscribed exclude each other", hint="give one of them"
        )
    if unsubscribed:
        return _unsubscribed(asked, **age)
    if any(age.values()):
        raise UsageError("--unsubscribed-for and --seen-in-runs go with --unsubscribed")
    cluster = choose_cluster(asked)
    with reading(asked, cluster) as progress:
        facts = change_facts.read_facts(cluster, groups=groups, topics=topics, on_progress=progress)
    plan = plan_delete_offsets(facts, groups=groups, topics=topics, all_topics=all_topics)
    return Planned(plan, cluster, facts)


def _unsubscribed(asked: CommandTarget, *, left_for: str | None, in_runs: int) -> Planned:
    """Plan to delete what live groups left behind, and keep what is seen now for later calls."""
    from toolkit.cli.change_flow import state_folder
    from toolkit.journeys.delete_offsets import record_unsubscribed
    from toolkit.model.times import parse_duration
    from toolkit.planning.changes.delete_offsets import plan_delete_unsubscribed

    length = parse_duration(left_for) if left_for is not None else None
    cluster = choose_cluster(asked)
    facts = read_facts(asked, cluster)
    seen = record_unsubscribed(state_folder(asked), facts)
    plan = plan_delete_unsubscribed(
        facts, groups=asked.groups, left_for=length, in_runs=in_runs, sightings=seen
    )
    return Planned(plan, cluster, facts)


HELP = (
    "Delete committed offsets (KIP-496): of live groups only those of topics that no member "
    "subscribes to. Without a topic: of live groups all such offsets; an empty group needs "
    "--topic or --all-topics."
)
planner = Planner("delete-offsets", HELP, make, OPTIONS)
command = change_command(planner)
