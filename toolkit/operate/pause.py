"""
Pause partitions of a live group, resume them, and list what is paused, by KIP-1249's names.

Each is one call for programs: it plans, takes the call itself for the approval, and applies. The
same rules stop it as anywhere else, and it is recorded like any other change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from toolkit.errors import Blocked
from toolkit.kafka_io.read_plan_facts import read_plan_facts
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Cluster, Member, Snapshot, TopicPartition
from toolkit.operate.apply import apply_plan, check_plan
from toolkit.operate.background import read_background
from toolkit.plan import Outcome, Plan
from toolkit.plan.approvals import Approval
from toolkit.planning.changes.pause import plan_pause, plan_resume
from toolkit.planning.guardrails.registry import blocking
from toolkit.planning.holds.hold_context import HoldTerms
from toolkit.planning.selection.scope import parse_topic, scopes_of
from toolkit.storage.operator import Operator
from toolkit.storage.state_folder import state_dir

UNTIL_RESUMED = HoldTerms()


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
    topics = [str(scope) for scope in scopes_of(partitions)]
    beside = read_background(cluster, group_id, prefer=terms.prefer)
    facts = _facts(cluster, group_id, topics)
    plan = plan_pause(facts, group=group_id, topics=topics, terms=terms, beside=beside)
    return _apply(plan, facts, cluster, reason)


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
    facts = _facts(cluster, group_id, topics)
    plan = plan_resume(facts, group=group_id, topics=topics, by=Operator.here())
    return _apply(plan, facts, cluster, reason)


def list_paused_partitions(cluster: Cluster, group_id: str) -> Mapping[TopicPartition, Member]:
    """
    Return what is paused in a group, each partition with the member of ours that holds it.

    It is read from the brokers alone: from any machine, whoever paused it. `hold_note` of a member
    says who, since when, until when and why.
    """
    snapshot = read_snapshot(cluster, groups=[group_id])
    return next((g.paused for g in snapshot.groups if g.group_id == group_id), {})


def _facts(cluster: Cluster, group_id: str, topics: Sequence[str]) -> Snapshot:
    names = sorted({parse_topic(topic).topic for topic in topics})
    return read_plan_facts(cluster, groups=[group_id], topics=names)


def _apply(plan: Plan, facts: Snapshot, cluster: Cluster, reason: str) -> Outcome | None:
    findings = check_plan(plan, facts, cluster)
    if stopping := blocking(findings, ()):
        raise Blocked(f"nothing was changed: {'; '.join(f.why for f in stopping)}")
    if not plan.steps:
        return None
    approval = Approval(plan.fingerprint, reason)
    return apply_plan(plan, cluster, approval, state=state_dir())
