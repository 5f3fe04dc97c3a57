"""
Pause partitions of a live group, resume them, and list what is paused, by KIP-1249's names.

`plan_group_pause` and `plan_group_resume` are what every front end calls. The three calls after
them are for programs: each plans, takes the call itself for the approval, and applies. The same
rules stop it as anywhere else, and it is recorded like any other change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from toolkit.errors import Blocked
from toolkit.journeys.change.change_facts import read_facts
from toolkit.kafka_io.read_snapshot import OnProgress, read_snapshot
from toolkit.model import Cluster, Member, Snapshot, TopicPartition
from toolkit.operate.apply import apply_plan, check_plan
from toolkit.operate.background import read_background
from toolkit.operate.orphaned_holds import OrphanedHold, settle_holds
from toolkit.plan import Outcome, Plan
from toolkit.plan.approvals import Approval
from toolkit.planning.changes.pause import plan_pause, plan_resume
from toolkit.planning.guardrails.registry import blocking
from toolkit.planning.holds.hold_context import HoldTerms
from toolkit.planning.selection.scope import parse_topics, scopes_of
from toolkit.storage.operator import Operator
from toolkit.storage.state_folder import state_dir

UNTIL_RESUMED = HoldTerms()


class HoldPlan(NamedTuple):
    """The facts that were read, the plan that was made of them, and holds found to have ended."""

    facts: Snapshot
    plan: Plan
    ended: tuple[OrphanedHold, ...] = ()


def plan_group_pause(
    cluster: Cluster,
    group_id: str,
    *,
    topics: Sequence[str],
    terms: HoldTerms,
    state: Path,
) -> HoldPlan:
    """
    Read a group and what is to be known beside it, and plan to pause partitions of it.

    `topics` are scopes (`TOPIC` or `TOPIC:0,1`). A hold whose keeper died is continued while the
    broker still withholds its partitions. One that has ended is recorded, and returned only once.
    Raises ClusterUnreachable, and UsageError for a scope that cannot be read.
    """
    parse_topics(topics)  # before anything is read or recorded
    left = settle_holds(cluster, state)
    beside = replace(
        read_background(cluster, group_id, prefer=terms.prefer),
        left_behind=frozenset(partition for one in left for partition in one.of(group_id)),
    )
    facts = read_facts(cluster, groups=[group_id], topics=topics)
    plan = plan_pause(facts, group=group_id, topics=topics, terms=terms, beside=beside)
    return HoldPlan(facts, plan, tuple(one for one in left if not one.still_held))


def plan_group_resume(
    cluster: Cluster,
    group_id: str,
    *,
    topics: Sequence[str] = (),
    on_progress: OnProgress = lambda _: None,
) -> HoldPlan:
    """
    Read a group and plan to resume partitions of it; without topics, all that are paused.

    Raises ClusterUnreachable, and UsageError for a scope that cannot be read.
    """
    facts = read_facts(cluster, groups=[group_id], topics=topics, on_progress=on_progress)
    plan = plan_resume(facts, group=group_id, topics=topics, by=Operator.here())
    return HoldPlan(facts, plan)


def pause_partitions(
    cluster: Cluster,
    group_id: str,
    partitions: Iterable[TopicPartition],
    *,
    reason: str,
    terms: HoldTerms = UNTIL_RESUMED,
) -> Outcome | None:
    """
    Keep partitions of a live group from its members while all others go on (KIP-1249).

    Returns once the broker shows all of them as held, or with what went wrong in the outcome; None
    where all are paused already. A process of its own holds them until `resume_partitions`, or for
    `terms.hold_for`. Raises Blocked, with nothing held, where a rule objects.
    """
    state = state_dir()
    topics = [str(scope) for scope in scopes_of(partitions)]
    planned = plan_group_pause(cluster, group_id, topics=topics, terms=terms, state=state)
    return _apply(planned, cluster, reason, state)


def resume_partitions(
    cluster: Cluster,
    group_id: str,
    partitions: Iterable[TopicPartition] = (),
    *,
    reason: str,
) -> Outcome | None:
    """
    Give paused partitions back to the group's members; without any, all that are paused.

    Returns once the broker shows none of them as held any more; None where none was. Raises
    Blocked, with nothing changed, where a rule objects, as it does where somebody else holds them.
    """
    topics = [str(scope) for scope in scopes_of(partitions)]
    planned = plan_group_resume(cluster, group_id, topics=topics)
    return _apply(planned, cluster, reason, state_dir())


def list_paused_partitions(cluster: Cluster, group_id: str) -> Mapping[TopicPartition, Member]:
    """
    Return what is paused in a group, each partition with the member of ours that holds it.

    It is read from the brokers alone: from any machine, whoever paused it. `hold_note` of a member
    says who, since when, until when and why.
    """
    snapshot = read_snapshot(cluster, groups=[group_id])
    return next((g.paused for g in snapshot.groups if g.group_id == group_id), {})


def _apply(planned: HoldPlan, cluster: Cluster, reason: str, state: Path) -> Outcome | None:
    findings = check_plan(planned.plan, planned.facts, cluster)
    if stopping := blocking(findings, ()):
        told = "; ".join(f"{found.rule}: {found.why}" for found in stopping)
        raise Blocked(f"nothing was changed: {told}")
    if not planned.plan.steps:
        return None
    approval = Approval(planned.plan.fingerprint, reason)
    return apply_plan(planned.plan, cluster, approval, state=state)
