"""`--delete-offsets`: delete the committed offsets of topics (KIP-496)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.change_command import Planned
from toolkit.cli.consumer_groups.connection_flags import asked_of, cluster_of
from toolkit.cli.consumer_groups.exact_names import named, only
from toolkit.cli.consumer_groups.tool_change_flow import Carrying, carry
from toolkit.cli.consumer_groups.tool_tables import Cell, write_table
from toolkit.cli.facts import read_facts
from toolkit.errors import UsageError
from toolkit.plan import Finding, Plan, Severity, Status
from toolkit.planning.changes.delete_offsets import plan_delete_offsets
from toolkit.planning.selection.index import Index
from toolkit.planning.selection.scope import NO_PARTITION, TopicScope, parse_topics, ranges

if TYPE_CHECKING:
    from toolkit.model import Snapshot
    from toolkit.plan import Outcome

COLUMNS = ("TOPIC", "PARTITION", "STATUS")
PLANNED, DONE = "Would be deleted", "Successful"


def run(given: dict[str, Any]) -> int:
    """Delete offsets, or show which would be; the exit code."""
    if len(set(given["groups"])) > 1:
        hint = "one call for each; 'offsetbook delete-offsets' takes several"
        raise UsageError("--delete-offsets takes one --group", hint=hint)
    scopes = parse_topics(given["topics"])
    cluster = cluster_of(given)
    facts = read_facts(
        asked_of(given),
        cluster,
        groups=named(given["groups"]),
        topics=sorted({scope.topic for scope in scopes}),
    )
    facts = only(facts, given["groups"])
    plan = plan_delete_offsets(facts, groups=given["groups"], topics=given["topics"])
    missing = tuple(_missing(facts, given["groups"][0], scopes))
    plan = replace(plan, findings=(*plan.findings, *missing))

    def write(outcome: Outcome | None) -> None:
        click.echo()
        write_table(COLUMNS, _rows(plan, outcome))

    return carry(Carrying(Planned(plan, cluster, facts), write, asks=True), given)


def _missing(facts: Snapshot, group: str, scopes: Sequence[TopicScope]) -> Iterator[Finding]:
    """Yield which topics and partitions do not exist; their offsets may, of a topic now gone."""
    index = Index.of(facts)
    committed = {*index.commits.get(group, ()), *index.unread.get(group, ())}
    for scope in scopes:
        there = {p.partition for p in committed if p.topic == scope.topic}
        known = index.partitions.get(scope.topic, frozenset()) | there
        if not known:
            problem = index.about_log.get((scope.topic, None))
            why = problem.why if problem else "nothing was read about this topic"
            yield Finding("missing-partition", Severity.BLOCK, why, group, scope.topic)
        elif lacking := set(scope.partitions or ()) - known:
            why = f"{NO_PARTITION}: {ranges(lacking)}"
            yield Finding("missing-partition", Severity.BLOCK, why, group, scope.topic)


def _rows(plan: Plan, outcome: Outcome | None) -> Iterator[Sequence[Cell]]:
    if outcome is None:
        yield from sorted((*change.partition, PLANNED) for _, change in plan.changes)
    for step in outcome.steps if outcome else ():
        for result in sorted(step.results, key=lambda result: result.partition):
            done = result.status is Status.DONE
            yield (*result.partition, DONE if done else f"Error: {result.why}")
