"""Rules about who may change what, and how much at once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from toolkit.model.names import matches, shown_name
from toolkit.plan.approvals import lacks_reason
from toolkit.planning.guardrails.check_context import CheckContext, FactsMissing, Objection

MAX_PLAN_AGE = timedelta(hours=1)
CLOCKS_DIFFER_BY = timedelta(minutes=5)  # between the hosts of those who plan and who apply


def read_only(case: CheckContext) -> Iterator[Objection]:
    """Nothing is changed on a cluster that the fleet file calls read-only."""
    if case.policy.read_only:
        yield Objection(f"cluster {case.plan.cluster} is marked read_only in the fleet file")


def protected_group(case: CheckContext) -> Iterator[Objection]:
    """Groups that the fleet file protects are left alone."""
    for name in case.plan.group_ids:
        for pattern in case.policy.protected_groups:
            if matches(name, pattern):
                entry = f"protected_groups: {shown_name(pattern)}"
                yield Objection(f"protected by the fleet file ({entry})", name)
                break


def reason_required(case: CheckContext) -> Iterator[Objection]:
    """Block changes without a reason, unless the fleet file makes it optional."""
    if case.applying and lacks_reason(case.reason, case.policy):
        yield Objection("no reason given")


def stale_plan(case: CheckContext) -> Iterator[Objection]:
    """Block plans that are too old."""
    age = case.now - case.plan.made_at
    if not case.applying or case.finishing:
        return
    if age < -CLOCKS_DIFFER_BY:
        raise FactsMissing(f"how old the plan is: it is of {case.plan.made_at:%Y-%m-%d %H:%M} UTC")
    if age > MAX_PLAN_AGE:
        yield Objection(f"the plan was made {age / timedelta(hours=1):.1f} hours ago")


def too_many_groups(case: CheckContext) -> Iterator[Objection]:
    """No plan changes more groups at once than the fleet file allows."""
    yield from over("groups", len(case.plan.group_ids), case.policy.max_groups)


def too_many_partitions(case: CheckContext) -> Iterator[Objection]:
    """No plan changes more committed offsets at once than the fleet file allows."""
    count = sum(len(step.changes) for step in case.plan.steps)
    yield from over("partitions", count, case.policy.max_partitions)


def over(what: str, count: int, most: int) -> Iterator[Objection]:
    """Object where a count is over its limit, whose name in the fleet file is `max_` and `what`."""
    if count > most:
        words = what.replace("_", " ")
        yield Objection(f"{count:,} {words}; max_{what} is {most:,}")
