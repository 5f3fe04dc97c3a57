"""Cases for the guard-rails: one idle group with one commit, in which one thing is then changed."""

from dataclasses import replace
from datetime import timedelta

from facts import NOON, idle, snapshot

from toolkit.model import Commit, Group, GroupState, GroupType, Policy, Snapshot, TopicPartition
from toolkit.plan import Action, Change, Finding, Intent, Plan, Position, Severity, Step
from toolkit.planning.guardrails.check_context import CheckContext
from toolkit.planning.guardrails.registry import check
from toolkit.planning.holds.hold_context import HoldFacts

ORDERS = TopicPartition("orders", 0)
OTHERS = TopicPartition("orders", 1)
BILLS = TopicPartition("bills", 0)
IDLE = idle()
SECOND = timedelta(seconds=1)
LOGS = dict.fromkeys((ORDERS, OTHERS, BILLS), (0, 20))


def commit(
    offset: int = 10, at: TopicPartition = ORDERS, *, group: str = "g", age: float | None = 3600
) -> Commit:
    """Return a commit made so many seconds before noon, or at an unknown time."""
    made = None if age is None else NOON - age * SECOND
    return Commit(group, *at, offset, committed_at=made)


def change(before: int | None = 10, after: int | None = 5, at: TopicPartition = ORDERS) -> Change:
    def position(offset: int | None) -> Position | None:
        return None if offset is None else Position(offset)

    return Change(at, position(before), position(after))


def step(*changes: Change, action: Action = Action.COMMIT, **fields: object) -> Step:
    """Return a step about the idle group, planned on what the facts say, with fields changed."""
    usual = {
        "group_id": "g",
        "type": GroupType.CLASSIC,
        "state": GroupState.EMPTY,
        "last_commit_at": NOON - 3600 * SECOND,
        **fields,
    }
    return Step(action=action, changes=changes, **usual)  # type: ignore[arg-type] # named by tests


def plan(*steps: Step, intent: Intent = Intent.RESET, **fields: object) -> Plan:
    """Return a plan of ten seconds ago."""
    usual = Plan(intent, "as asked", "eu", "id", NOON - 10 * SECOND, steps)
    return replace(usual, **fields)  # type: ignore[arg-type] # a test names the fields it means


def facts(*groups: Group, commits: tuple[Commit, ...] = (commit(),), **fields: object) -> Snapshot:
    """Return the facts of noon: the idle group with its commit, unless others are given."""
    usual = snapshot(*(groups or (IDLE,)), commits=commits, logs=LOGS)
    return replace(usual, **fields)  # type: ignore[arg-type] # a test names the fields it means


def case(made: Plan | None = None, now: Snapshot | None = None, **fields: object) -> CheckContext:
    """Return the case of applying a plan at noon, with a reason, within default limits."""
    usual = CheckContext(
        made or plan(step(change())), now or facts(), Policy(), NOON, "why", applying=True
    )
    beside = {name: HoldFacts() for name in usual.plan.group_ids}
    return replace(usual, **{"hold_facts": beside, **fields})  # type: ignore[arg-type] # a test names the fields it means


def found(rule: str, about: CheckContext) -> list[Finding]:
    return [finding for finding in check(about) if finding.rule == rule]


def rules(about: CheckContext) -> list[str]:
    """Return the rules that block."""
    return [finding.rule for finding in check(about) if finding.severity is Severity.BLOCK]


def reviewed(made: Plan, now: Snapshot) -> list[str]:
    """Return the rules that block a plan while it is reviewed, by the facts it was made from."""
    return rules(CheckContext(made, now, Policy(), NOON))
