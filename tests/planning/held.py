"""Groups that are held, or are to be: a live group of two members that read a topic of four."""

from dataclasses import replace
from datetime import timedelta

from facts import NOON, changes, live, snapshot

from toolkit.model import (
    HOLDER_CLIENT_ID,
    Commit,
    Group,
    GroupType,
    HoldNote,
    Member,
    Snapshot,
    Subscription,
    TopicPartition,
)
from toolkit.plan import Plan

PARTITIONS = tuple(TopicPartition("orders", number) for number in range(4))
ALICE = ("alice", "desk")
NOTE = HoldNote(*ALICE, since=NOON, survives_s=45.0)


def reader(name: str, *owns: int, topics: tuple[str, ...] = ("orders",)) -> Member:
    subscription = Subscription(frozenset(topics))
    return Member(name, name, "/10.0.0.1", subscription, tuple(PARTITIONS[n] for n in owns))


def holder(*holds: int, note: HoldNote | None = NOTE, name: str = "!h") -> Member:
    held = tuple(PARTITIONS[n] for n in holds)
    return Member(
        name, HOLDER_CLIENT_ID, "/10.0.0.9", Subscription(), held, holds=held, hold_note=note
    )


def group(*members: Member, assignor: str = "uniform", **fields: object) -> Group:
    """Return a KIP-848 group of two readers, or of the members given, with fields changed."""
    fields = {"type": GroupType.CONSUMER, "assignor": assignor, **fields}
    return live("g", *(members or (reader("a", 0, 1), reader("b", 2, 3))), **fields)


def classic(*members: Member, assignor: str = "range", **fields: object) -> Group:
    return group(*members, assignor=assignor, type=GroupType.CLASSIC, **fields)


def facts(of: Group, *, committed: int = 10, end: int = 20, age_s: float = 1.0) -> Snapshot:
    """Return a snapshot of one group that committed all four partitions so many seconds ago."""
    at = NOON - timedelta(seconds=age_s)
    commits = tuple(Commit("g", *p, committed, committed_at=at) for p in PARTITIONS)
    return snapshot(of, commits=commits, logs=dict.fromkeys(PARTITIONS, (0, end)))


def without_commits(about: Snapshot, *numbers: int) -> Snapshot:
    return replace(about, commits=tuple(c for c in about.commits if c.partition not in numbers))


def reason(plan: Plan, rule: str) -> str:
    """Return the reasons of one rule's findings; "" without a finding."""
    return "; ".join(finding.why for finding in plan.findings if finding.rule == rule)


def blocks(plan: Plan) -> list[str]:
    return [finding.rule for finding in plan.findings if finding.blocks]


def notes(plan: Plan) -> list[str]:
    return [finding.rule for finding in plan.findings if not finding.blocks]


def numbers(plan: Plan) -> list[int]:
    return [change.partition.partition for change in changes(plan)]
