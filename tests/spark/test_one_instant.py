"""Commits and log ends of a cluster are of one instant, however long the reading took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pandas as pd
import pytest
from applications import Applications
from fleet_tasks import blocks_of, tasks_of

from toolkit.model import Cluster, TopicPartition
from toolkit.planning.lag.status_rules import StatusRules
from toolkit.spark.arrow import as_frame
from toolkit.spark.catch_up import FROM_LOG, read_newest
from toolkit.spark.judge import EvaluationRules, judge_cluster
from toolkit.spark.packed_tables import Row, unpack
from toolkit.spark.read_tasks import NothingToRead
from toolkit.spark.schemas import RESULTS

NOW = datetime.now(UTC)
RULES = EvaluationRules(StatusRules(), NOW, 30, NOW, {})


def judged(cluster: Cluster, blocks: Sequence[Row]) -> dict[str, pd.DataFrame]:
    """Return the results of judging some blocks."""
    found = list(judge_cluster(cluster, blocks, RULES))
    return {
        name: pd.concat([as_frame(unpack(row.get(name), of)) for row in found])
        for name, of in RESULTS.items()
    }


@pytest.fixture
def place(apps: Applications) -> TopicPartition:
    """Return a partition with ten records."""
    return TopicPartition(apps.create_topic(apps.name("orders"), records=10), 0)


def test_what_is_committed_while_the_fleet_is_read_is_no_lag(
    apps: Applications, place: TopicPartition
) -> None:
    """Commits, and groups, that come after the first stage has read are there as well."""
    group, later = apps.name("payments"), apps.name("later")
    apps.commit(group, {place: 3})
    blocks = blocks_of(tasks_of(apps.cluster))
    apps.commit(group, {place: 10})
    apps.commit(later, {place: 9})

    found = judged(apps.cluster, blocks)

    rows = found["partitions"].set_index("group").loc[[group, later]]
    assert [(10, 0, FROM_LOG), (9, 1, FROM_LOG)] == [
        (row.committed, row.lag, row.source) for row in rows.itertuples()
    ]
    assert (rows["skew_s"] >= 0).all()
    groups = found["groups"].set_index("group")
    assert groups.loc[group, "skew_s"] == rows.loc[group, "skew_s"]


def test_an_offsets_topic_that_was_created_meanwhile_is_read(
    apps: Applications, place: TopicPartition
) -> None:
    """A cluster whose first group came after the work was divided shows that group."""
    group = apps.name("first")
    apps.commit(group, {place: 4})

    newest = read_newest(apps.cluster, blocks_of([NothingToRead(apps.cluster)]))

    mine = [row for row in newest.commits.to_pylist() if row["group"] == group]
    assert [(4, FROM_LOG)] == [(row["committed"], row["source"]) for row in mine]


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.usefixtures("lost_sockets")
def test_a_cluster_that_is_lost_between_the_stages_keeps_its_rows(
    apps: Applications, place: TopicPartition
) -> None:
    """They have an unknown lag and say why; what could not be read anew is a read error."""
    group = apps.name("payments")
    apps.commit(group, {place: 3})
    blocks = blocks_of(tasks_of(apps.cluster))
    gone = replace(apps.cluster, bootstrap_servers="127.0.0.1:1", timeout_s=1)

    found = judged(gone, blocks)

    (row,) = found["partitions"].set_index("group").loc[[group]].to_dict("records")
    assert (3, True) == (row["committed"], pd.isna(row["lag"]))
    assert "cannot connect" in row["log_problem"]
    assert any("offsets topic was not read" in why for why in found["problems"]["problem"])
