"""`offsetbook delete-offsets`: delete committed offsets (KIP-496)."""

from __future__ import annotations

import click

from toolkit.cli.facts import choose_cluster, read_facts, required_groups
from toolkit.cli.options import topics_option
from toolkit.cli.planner import Asked, Planned, Planner, change_command

OPTIONS = (
    topics_option(),
    click.option("--all-topics", is_flag=True, help="Everything that an idle group committed."),
    click.option(
        "--unsubscribed",
        is_flag=True,
        help="What live groups committed of topics that they do not subscribe to. Groups about "
        "which that cannot be said are passed over.",
    ),
)


def make(asked: Asked, *, topics: tuple[str, ...], all_topics: bool, unsubscribed: bool) -> Planned:
    """Plan to delete offsets."""
    from toolkit.errors import UsageError
    from toolkit.planning.delete_offsets import plan_delete_offsets, plan_delete_unsubscribed

    groups = required_groups(asked)
    if bool(topics) + all_topics + unsubscribed > 1:
        raise UsageError(
            "--topic, --all-topics and --unsubscribed exclude each other", hint="give one of them"
        )
    cluster = choose_cluster(asked)
    facts = read_facts(asked, cluster)
    if unsubscribed:
        plan = plan_delete_unsubscribed(facts, groups=groups)
    else:
        plan = plan_delete_offsets(facts, groups=groups, topics=topics, all_topics=all_topics)
    return Planned(plan, cluster, facts)


HELP = (
    "Delete committed offsets (KIP-496): of live groups only those of topics that no member "
    "subscribes to. Without a topic: of live groups all such offsets."
)
planner = Planner("delete-offsets", HELP, make, OPTIONS)
command = change_command(planner)
