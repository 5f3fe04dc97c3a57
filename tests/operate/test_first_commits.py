"""What an open transaction is about to commit for the first time is not lost with its group."""

from collections.abc import Callable
from pathlib import Path

import pytest
from applications import Applications
from operators import Operator
from plans_of_groups import Orders, delete_group, delete_offsets, rename

from toolkit.kafka_io.groups.commits import FIRST_COMMIT
from toolkit.model import Cluster
from toolkit.plan import Plan


@pytest.fixture
def operator(exclusive_cluster: Cluster, tmp_path: Path) -> Operator:
    """Return an operator at the cluster where an open transaction hides nobody else's groups."""
    return Operator(exclusive_cluster, tmp_path / "state")


@pytest.fixture
def apps(exclusive_apps: Applications) -> Applications:
    return exclusive_apps


@pytest.mark.parametrize("make", [rename, delete_group, delete_offsets, Operator.reset])
def test_a_plan_is_blocked_by_a_later_transaction(
    operator: Operator, apps: Applications, orders: Orders, make: Callable[[Operator, str], Plan]
) -> None:
    """The transaction began after the plan was made."""
    group = apps.name("payments")
    operator.commit(group, {orders[0]: 7})
    plan = make(operator, group)
    producer = apps.pending(group, 8, orders[1])
    try:
        refusal = operator.refusal(plan, *(("last-offsets",) if make is delete_offsets else ()))
    finally:
        producer.abort_transaction()

    unread = f"committed offset could not be read: {FIRST_COMMIT}"
    assert f"unreadable ({group}): {unread}" in refusal.problem
