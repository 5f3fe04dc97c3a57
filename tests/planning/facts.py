"""Facts to plan with, made by hand: small clusters in which one thing matters."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from toolkit.model import (
    Commit,
    Group,
    GroupState,
    GroupType,
    LogOffsets,
    Member,
    Snapshot,
    Subscription,
    TopicPartition,
)
from toolkit.plan import Change, Plan
from toolkit.planning.guardrails.registry import NOTES, RULES

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def member(*topics: str, unreadable: str = "", owns: tuple[TopicPartition, ...] = ()) -> Member:
    subscription = Subscription(frozenset(topics), unreadable=unreadable)
    return Member("m-1", "app", "/10.0.0.1", subscription, owns)


def live(name: str, *members: Member, **changes: object) -> Group:
    """Return a live classic consumer group, with fields changed."""
    fields = {
        "type": GroupType.CLASSIC,
        "state": GroupState.STABLE,
        "protocol_type": "consumer",
        "members": members,
        **changes,
    }
    return Group(name, **fields)  # type: ignore[arg-type] # a test names the fields it means


def idle(name: str = "g", kind: GroupType = GroupType.CLASSIC) -> Group:
    """Return a group that is Empty; a simple group never had a member, so it has no protocol."""
    protocol_type = None if kind is GroupType.SIMPLE else "consumer"
    return Group(name, kind, GroupState.EMPTY, protocol_type)


def snapshot(
    *groups: Group,
    commits: tuple[Commit, ...] = (),
    logs: Mapping[Any, tuple[int | None, int | None]] | None = None,
) -> Snapshot:
    """Return a snapshot of a cluster named eu; logs are (start, end), everything stable."""
    return Snapshot(
        cluster="eu",
        cluster_id="id",
        taken_at=NOON,
        groups=groups,
        commits=commits,
        logs={TopicPartition(*p): LogOffsets(s, e, e) for p, (s, e) in (logs or {}).items()},
    )


def changes(plan: Plan) -> list[Change]:
    return [change for _, change in plan.changes]


def rules(plan: Plan) -> list[tuple[str, str]]:
    """Return rule and severity of what planning found; each is a rule or note that is known."""
    assert {finding.rule for finding in plan.findings} <= RULES.keys() | NOTES.keys()
    return [(finding.rule, str(finding.severity)) for finding in plan.findings]
