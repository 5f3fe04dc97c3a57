"""Move the committed offsets of a live group, without stopping a consumer."""

from __future__ import annotations

from dataclasses import dataclass, replace

from toolkit.journeys.change.change_facts import read_facts
from toolkit.kafka_io.read_snapshot import OnProgress
from toolkit.model import Cluster, Snapshot
from toolkit.operate.background import read_background
from toolkit.plan import Plan
from toolkit.planning.changes.move import MoveRequest, PlannedMove, plan_move
from toolkit.planning.changes.reset import plan_reset


@dataclass(frozen=True, slots=True)
class PlannedGroupMove:
    """The facts that were read, and the plan made of them; `live` where the group has members."""

    facts: Snapshot
    plan: Plan
    live: PlannedMove | None = None


def plan_group_move(
    cluster: Cluster, request: MoveRequest, *, on_progress: OnProgress = lambda _: None
) -> PlannedGroupMove:
    """
    Plan to move the offsets of a live group; of one without members it is an ordinary reset.

    What is to be known beside the facts is read here, whatever the request has of it. Raises
    ClusterUnreachable, and UsageError for a scope that cannot be read.
    """
    beside = read_background(cluster, request.group, prefer=request.prefer)
    facts = read_facts(
        cluster,
        groups=[request.group],
        topics=request.topics,
        target=request.target,
        on_progress=on_progress,
    )
    if any(group.group_id == request.group and not group.is_live for group in facts.groups):
        plan = plan_reset(
            facts,
            request.target,
            groups=[request.group],
            topics=request.topics,
            new_topics=request.new_topics,
        )
        return PlannedGroupMove(facts, plan)
    live = plan_move(facts, replace(request, beside=beside))
    return PlannedGroupMove(facts, live.plan, live)
