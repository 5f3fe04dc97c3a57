"""`offsetbook rescue`: keep committed offsets from expiring."""

from __future__ import annotations

from toolkit.cli.change_command import CommandTarget, Planned, Planner, change_command
from toolkit.cli.facts import choose_cluster, read_facts, required_groups


def make(asked: CommandTarget) -> Planned:
    """Plan to restart the expiry clocks of idle groups."""
    from toolkit.planning.changes.rescue import plan_rescue

    groups = required_groups(asked)
    cluster = choose_cluster(asked)
    facts = read_facts(asked, cluster)
    return Planned(plan_rescue(facts, groups=groups), cluster, facts)


HELP = (
    "Keep the offsets of idle groups from expiring (KIP-211): commit them again as they are or, "
    "for a classic group, have a member join and leave. Read back from the log."
)
planner = Planner("rescue", HELP, make)
command = change_command(planner)
