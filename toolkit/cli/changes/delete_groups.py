"""`offsetbook delete-groups`: delete idle groups with all their offsets (KIP-229)."""

from __future__ import annotations

import click

from toolkit.cli.change_command import CommandTarget, Planned, Planner, change_command
from toolkit.cli.facts import choose_cluster, read_facts, required_groups

OPTIONS = (
    click.option(
        "--empty-for",
        metavar="DURATION",
        help="Only those that nobody has used for so long: 30d. By the group's own record in the "
        "log, or by what earlier calls with this option saw.",
    ),
)


def make(asked: CommandTarget, *, empty_for: str | None) -> Planned:
    """Plan to delete groups; with an age, what is seen now is kept for later calls."""
    from toolkit.cli.change_flow import state_folder
    from toolkit.model.times import parse_duration
    from toolkit.planning.changes.delete_groups import plan_delete_groups
    from toolkit.storage.sightings import empty_groups

    groups = required_groups(asked)
    age = parse_duration(empty_for) if empty_for is not None else None
    cluster = choose_cluster(asked)
    if age is None:
        facts = read_facts(asked, cluster)
        return Planned(plan_delete_groups(facts, groups=groups), cluster, facts)
    # What was seen of a group tells its age only if every look was at the whole cluster.
    facts = read_facts(asked, cluster, groups=())
    state = state_folder(asked)
    empty_groups.record(state, facts)
    seen = empty_groups.empty_since(state, facts.cluster_id)
    plan = plan_delete_groups(facts, groups=groups, empty_for=age, sightings=seen)
    return Planned(plan, cluster, facts)


HELP = (
    "Delete empty groups with all their offsets (KIP-229). 'offsetbook undo' brings them back, but "
    "not share groups and groups without committed offsets."
)
planner = Planner("delete-groups", HELP, make, OPTIONS)
command = change_command(planner)
