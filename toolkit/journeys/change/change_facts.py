"""What a notebook reads before it plans, and beside its plan."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime

from toolkit.kafka_io.logs.record_times import read_record_times
from toolkit.kafka_io.read_plan_facts import read_plan_facts
from toolkit.model import NO_SUCH_GROUP, Cluster, Snapshot, TopicPartition
from toolkit.plan import Plan
from toolkit.planning.changes.by_time import ToDatetime
from toolkit.planning.changes.targets import Target
from toolkit.planning.selection.scope import parse_topics


def read_facts(
    cluster: Cluster,
    *,
    groups: Sequence[str],
    topics: Sequence[str] = (),
    target: Target | None = None,
) -> Snapshot:
    """Read groups and topics, as in `topic:0-5`, for a plan; for a target by time, that as well."""
    at = target.at if isinstance(target, ToDatetime) else None
    names = sorted({scope.topic for scope in parse_topics(topics)})
    return read_plan_facts(cluster, groups=groups, topics=names, at=at)


def read_facts_of(plan: Plan, cluster: Cluster) -> Snapshot:
    """Read the groups and topics of a plan that was made before."""
    topics = sorted({change.partition.topic for _, change in plan.changes})
    facts = read_plan_facts(cluster, groups=plan.group_ids, topics=topics)
    return without_missing(facts, {step.group_id for step in plan.steps if step.creates})


def without_missing(facts: Snapshot, groups: Collection[str]) -> Snapshot:
    """Return facts in which it is no problem that some groups do not exist: they will be made."""
    kept = [p for p in facts.problems if p.what != NO_SUCH_GROUP or p.group_id not in groups]
    return replace(facts, problems=tuple(kept))


def read_times_of(
    plan: Plan, facts: Snapshot, cluster: Cluster
) -> dict[tuple[TopicPartition, int], datetime]:
    """Return when the records were written that a plan's offsets lead to, of the first changes."""
    wanted = [
        (change.partition, position.offset)
        for _, change in plan.changes
        for position in (change.before, change.after)
        if position and (log := facts.logs.get(change.partition)) and log.holds(position.offset)
    ]
    return read_record_times(cluster, wanted)
