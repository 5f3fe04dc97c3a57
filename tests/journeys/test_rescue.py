"""A rescue that is planned from a forecast, on a real broker."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from applications import Applications
from operators import Operator

from toolkit.errors import UsageError
from toolkit.model import TopicPartition
from toolkit.plan import Intent
from toolkit.session import Session, connect


def vanishing(*rows: tuple[str, str]) -> pd.DataFrame:
    """Return a forecast of these clusters and groups."""
    return pd.DataFrame(list(rows), columns=["cluster", "group"])


@pytest.fixture
def topic(apps: Applications) -> str:
    """Return a topic."""
    return apps.create_topic(apps.name("rescued"), records=3)


def test_the_groups_that_lose_offsets_are_rescued(
    operator: Operator, apps: Applications, topic: str
) -> None:
    """Without names, all groups of the forecast of that cluster are meant, and no others."""
    wild, other = apps.name("wild*"), apps.name("wild-too")
    for group in (wild, other, wild.replace("*", "card")):
        apps.commit(group, {TopicPartition(topic, 0): 1})
    forecast = vanishing((operator.cluster.name, wild), ("elsewhere", other))

    change = operator.session.rescue(forecast=forecast)

    assert (Intent.RESCUE, (wild,)) == (change.plan.intent, change.plan.group_ids)
    assert [wild] == [group.group_id for group in change.facts.groups]


def test_groups_that_are_named_are_rescued(
    operator: Operator, apps: Applications, topic: str
) -> None:
    """Named groups are meant, whether they are in the forecast or not."""
    group = apps.name("named")
    apps.commit(group, {TopicPartition(topic, 0): 1})

    assert (group,) == operator.session.rescue([group], forecast=vanishing()).plan.group_ids


def test_a_forecast_without_losses_rescues_nothing(operator: Operator) -> None:
    """Where nothing expires there is nothing to do, which is no mistake."""
    session: Session = operator.session

    assert () == session.rescue(forecast=vanishing(("elsewhere", "g"))).plan.steps


def test_a_change_is_on_one_cluster(tmp_path: Path) -> None:
    """On several clusters a change is refused before any is asked."""
    with pytest.raises(UsageError, match="a change is on one cluster, and 2 were chosen"):
        connect(["eu", "us"], tmp_path / "fleet.yaml")
