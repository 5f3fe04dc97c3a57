"""What a notebook reads before it plans, and beside its plan."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime

from toolkit.kafka_io.logs.record_times import read_record_times
from toolkit.kafka_io.read_plan_facts import read_plan_facts
from toolkit.kafka_io.read_snapshot import OnProgress
from toolkit.model import NO_SUCH_GROUP, Cluster, Snapshot, TopicPartition
from toolkit.plan import Plan
from toolkit.planning.changes.by_time import ToDatetime
from toolkit.planning.changes.from_offsets import FromOffsets
from toolkit.planning.changes.targets import Target
from toolkit.planning.selection.scope import parse_topics


def read_facts(
    cluster: Cluster,
    *,
    groups: Sequence[str],
    topics: Sequence[str] = (),
    target: Target | None = None,
    on_progress: OnProgress = lambda _: None,
) -> Snapshot:
    """
    Read groups, topics (`TOPIC` or `TOPIC:0,1`) and what a target needs, for a plan.

    Raises ClusterUnreachable, and UsageError for a topic that cannot be read.
    """
    names = {scope.topic for scope in parse_topics(topics)}
    if isinstance(target, FromOffsets):
        names |= target.topics
    at = target.at if isinstance(target, ToDatetime) else None
    return read_plan_facts(
        cluster, groups=groups, topics=sorted(names), at=at, on_progress=on_progress
    )


def read_facts_of(
    plan: Plan, cluster: Cluster, *, on_progress: OnProgress = lambda _: None
) -> Snapshot:
    """Read the groups and topics of a plan that was made before."""
    topics = sorted({change.partition.topic for _, change in plan.changes})
    facts = read_plan_facts(cluster, groups=plan.group_ids, topics=topics, on_progress=on_progress)
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
