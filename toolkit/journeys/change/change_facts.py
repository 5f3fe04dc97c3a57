"""The facts that a change is planned from."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.kafka_io.read_plan_facts import read_plan_facts
from toolkit.kafka_io.read_snapshot import Progress
from toolkit.model import Snapshot, Unread
from toolkit.model.names import ExactName
from toolkit.operate.hold_facts import sample_hold_facts
from toolkit.plan import Plan
from toolkit.planning.changes.targets import FromOffsets, Target, ToDatetime
from toolkit.planning.holds.hold_context import HoldFacts
from toolkit.planning.selection.partition_selection import parse_topics
from toolkit.report.progress_line import progress_line


def read_facts(
    access: ClusterAccess,
    groups: Sequence[str],
    *,
    topics: Sequence[str] = (),
    target: Target | None = None,
) -> Snapshot:
    """
    Read groups, topics (`TOPIC` or `TOPIC:0,1`) and what a target needs, for a plan.

    Raises ClusterUnreachable, and UsageError for a topic that cannot be read.
    """
    names = {scope.topic for scope in parse_topics(topics)}
    if isinstance(target, FromOffsets):
        names |= target.topics
    at = target.at if isinstance(target, ToDatetime) else None
    return read_topics(access, groups, topics=names, at=at)


def read_topics(
    access: ClusterAccess,
    groups: Sequence[str],
    *,
    topics: Collection[str] = (),
    at: datetime | None = None,
) -> Snapshot:
    """Read groups, and every partition of topics that are named; see `read_plan_facts`."""
    return read_plan_facts(
        access.cluster, groups=groups, topics=sorted(topics), at=at, on_progress=access.on_progress
    )


def sample_group(access: ClusterAccess, group: str, *, prefer: str) -> HoldFacts:
    """Read what a hold needs, see `sample_hold_facts`; show it where a rebalance is waited for."""

    @contextmanager
    def waiting() -> Iterator[None]:
        words = "waiting for the end of a rebalance"
        access.on_progress(Progress(words, 0, 0))
        with progress_line(words):
            yield

    return sample_hold_facts(access.cluster, group, prefer=prefer, waiting=waiting)


def read_plan_snapshot(
    plan: Plan, access: ClusterAccess, *, at: datetime | None = None
) -> Snapshot:
    topics = {change.partition.topic for _, change in plan.changes}
    facts = read_topics(access, [*map(ExactName, plan.group_ids)], topics=topics, at=at)
    return without_missing(facts, {step.group_id for step in plan.steps if step.creates})


def without_missing(facts: Snapshot, groups: Collection[str]) -> Snapshot:
    """Return facts in which it is no problem that some groups do not exist: they will be made."""
    problems = [p for p in facts.problems if p.what is not Unread.GROUP or p.group_id not in groups]
    return replace(facts, problems=tuple(problems))
