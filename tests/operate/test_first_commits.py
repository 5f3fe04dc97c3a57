"""What an open transaction is about to commit for the first time is not lost with its group."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from applications import Applications
from operators import Operator
from plans_of_groups import delete_group, delete_offsets, rename

from toolkit.kafka_io.groups.commits import FIRST_COMMIT
from toolkit.model import Cluster, TopicPartition
from toolkit.plan import Finding, Plan, Severity

Orders = tuple[TopicPartition, TopicPartition]


@pytest.fixture
def operator(exclusive_cluster: Cluster, tmp_path: Path) -> Operator:
    """Return an operator at the cluster where an open transaction hides nobody else's groups."""
    return Operator(exclusive_cluster, tmp_path / "state")


@pytest.fixture
def apps(exclusive_apps: Applications) -> Applications:
    """Return the applications there."""
    return exclusive_apps


@contextmanager
def about_to_commit(apps: Applications, group: str, partition: TopicPartition) -> Iterator[None]:
    """Keep a transaction open that commits for a group, and commit it at the end."""
    producer = apps.pending(group, 8, partition)
    try:
        yield
    finally:
        producer.commit_transaction()


@pytest.mark.parametrize("make", [rename, delete_group, delete_offsets])
@pytest.mark.parametrize("has_others", [True, False])
def test_no_plan_is_made_over_it(
    operator: Operator,
    apps: Applications,
    orders: Orders,
    make: Callable[[Operator, str], Plan],
    *,
    has_others: bool,
) -> None:
    """The finding names the partition, also where the group has committed nothing else."""
    group = apps.name("payments")
    if has_others:
        operator.commit(group, {orders[0]: 7})
    with about_to_commit(apps, group, orders[1]):
        findings = make(operator, group).findings

    why = f"committed offset could not be read: {FIRST_COMMIT}"
    finding = Finding("unreadable", Severity.BLOCK, why, group, *orders[1])
    assert [finding] == [found for found in findings if found.severity is Severity.BLOCK]
    assert apps.eventually(lambda: orders[1] in operator.held(group)[group])


@pytest.mark.parametrize("make", [rename, delete_group, delete_offsets, Operator.reset])
def test_no_plan_is_applied_over_it(
    operator: Operator, apps: Applications, orders: Orders, make: Callable[[Operator, str], Plan]
) -> None:
    """The transaction began after the plan was made."""
    group = apps.name("payments")
    operator.commit(group, {orders[0]: 7})
    plan = make(operator, group)
    with about_to_commit(apps, group, orders[1]):
        refusal = operator.refusal(plan, *(("last-offsets",) if make is delete_offsets else ()))

    assert f"unreadable ({group}): committed offset: {FIRST_COMMIT}" in refusal.problem
