"""The rescue that a notebook plans from its forecast, on a real broker."""

from __future__ import annotations

import pandas as pd
import pytest
from applications import Applications
from desks import Desk

from toolkit.errors import UsageError
from toolkit.journeys.rescue import plan_expiry_rescue
from toolkit.model import Cluster, TopicPartition
from toolkit.operate.apply import check_plan
from toolkit.plan import Intent


def vanishing(*rows: tuple[str, str]) -> pd.DataFrame:
    """Return a forecast of these clusters and groups."""
    return pd.DataFrame(list(rows), columns=["cluster", "group"])


@pytest.fixture
def topic(apps: Applications) -> str:
    """Return a topic."""
    return apps.create_topic(apps.name("rescued"), records=3)


def test_the_groups_that_lose_offsets_are_rescued(
    desk: Desk, apps: Applications, topic: str
) -> None:
    """Without names, all groups of the forecast of that cluster are meant, and no others."""
    wild, other = apps.name("wild*"), apps.name("wild-too")
    for group in (wild, other, wild.replace("*", "card")):
        apps.commit(group, {TopicPartition(topic, 0): 1})
    forecast = vanishing((desk.cluster.name, wild), ("elsewhere", other))

    _, facts, plan = plan_expiry_rescue([desk.cluster], forecast, rescue=True)

    assert (Intent.RESCUE, (wild,)) == (plan.intent, plan.group_ids)
    assert [wild] == [group.group_id for group in facts.groups]


def test_groups_that_are_named_are_rescued(desk: Desk, apps: Applications, topic: str) -> None:
    """Named groups are meant, whether they are in the forecast or not."""
    group = apps.name("named")
    apps.commit(group, {TopicPartition(topic, 0): 1})

    found = plan_expiry_rescue([desk.cluster], vanishing(), rescue=True, groups=[group])

    assert (group,) == found.plan.group_ids


def test_without_a_wish_nothing_is_planned(desk: Desk) -> None:
    """A forecast alone, and a rescue of nothing, lead to a plan without steps and ask nobody."""
    nobody = Cluster("nowhere", "127.0.0.1:1")
    looked = plan_expiry_rescue([nobody], vanishing(("nowhere", "g")), rescue=False, groups=["g"])
    nothing = plan_expiry_rescue([nobody], vanishing((desk.cluster.name, "g")), rescue=True)

    for found in (looked, nothing):
        assert () == found.plan.steps
        assert () == check_plan(found.plan, found.facts, found.cluster)


def test_a_rescue_is_on_one_cluster(desk: Desk) -> None:
    """On several clusters a rescue is refused, and a look is not."""
    several = [desk.cluster, Cluster("nowhere", "127.0.0.1:1")]

    assert () == plan_expiry_rescue(several, vanishing(), rescue=False).plan.steps
    with pytest.raises(UsageError, match="a rescue is on one cluster, and 2 were chosen"):
        plan_expiry_rescue(several, vanishing(), rescue=True)
