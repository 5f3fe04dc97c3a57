"""Commits and log ends of a cluster are of one instant, however long the reading took."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, Self

import pandas as pd
import pyarrow as pa
import pytest
from applications import Applications
from fleet_tasks import blocks_of, judged, tasks_of
from stored_runs import store

from toolkit.errors import ClusterUnreachable
from toolkit.kafka_io import cluster_facts
from toolkit.model import Cluster, TopicPartition
from toolkit.planning.lag.status_rules import StatusRules
from toolkit.spark import ask, judge
from toolkit.spark.catch_up import FROM_LOG, read_newest
from toolkit.spark.history import LOG_ENDS_TABLE, History
from toolkit.spark.judge import LOOK_BACK, MOST_ENDS, EvaluationRules, _past_ends
from toolkit.spark.read_tasks import NothingToRead
from toolkit.spark.schemas import LOG_ENDS

NOW = datetime.now(UTC)
RULES = EvaluationRules(StatusRules(), NOW, 30, NOW)


@pytest.fixture
def place(apps: Applications) -> TopicPartition:
    return TopicPartition(apps.create_topic(apps.name("orders"), records=10), 0)


def test_commits_during_the_reading_are_no_lag(apps: Applications, place: TopicPartition) -> None:
    """Commits and groups that come after the first stage are included."""
    group, later = apps.name("payments"), apps.name("later")
    apps.commit(group, {place: 3})
    blocks = blocks_of(tasks_of(apps.cluster))
    apps.commit(group, {place: 10})
    apps.commit(later, {place: 9})

    found = judged(apps.cluster, blocks, RULES)

    rows = found["partitions"].set_index("group").loc[[group, later]]
    assert [(10, 0, FROM_LOG), (9, 1, FROM_LOG)] == [
        (row.committed, row.lag, row.source) for row in rows.itertuples()
    ]
    assert (rows["skew_s"] >= 0).all()
    groups = found["groups"].set_index("group")
    assert groups.loc[group, "skew_s"] == rows.loc[group, "skew_s"]


def test_groups_are_listed_after_their_commits_are_read(
    apps: Applications, place: TopicPartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group that begins while the fleet is read is not one that has ended."""
    blocks, late = blocks_of(tasks_of(apps.cluster)), apps.name("late")
    list_groups = judge.ask_groups

    def list_first(cluster: Cluster) -> Any:
        found = list_groups(cluster)
        apps.commit(late, {place: 9})
        return found

    monkeypatch.setattr(judge, "ask_groups", list_first)
    found = judged(apps.cluster, blocks, RULES)["partitions"]

    assert "Dead" not in set(found[found["group"] == late]["state"])


def test_a_wrong_clock_is_reported(apps: Applications, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group is healthy by the cluster's clock, and stopped by one that is ahead."""

    class Ahead(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return super().now(tz) + timedelta(minutes=4)

    right = ask.ask_groups(apps.cluster).problems
    monkeypatch.setattr(cluster_facts, "datetime", Ahead)
    (told,) = {*ask.ask_groups(apps.cluster).problems} - {*right}

    assert "ahead of the cluster's: ages, time lag, status" in told
    assert "clock" not in str(right)


def test_an_earlier_topic_may_be_meant_where_ids_are_unread(
    apps: Applications, place: TopicPartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lag of such a commit would be one of two logs; one without an id is as ever."""
    columns = {"topic": [place.topic] * 2, "partition": [0] * 2, "committed": [3, 3]}
    positions = pd.DataFrame({**columns, "topic_id": ["an-earlier-one", None]})

    def fail(*_: object) -> None:
        raise ClusterUnreachable("no answer")

    monkeypatch.setattr(ask, "read_topic_ids", fail)
    found = ask.ask_logs(apps.cluster, positions, [60])

    assert [(True, 10), ("unknown whether the topic was created anew: no answer", "")] == [
        (pd.isna(found["log_end"][0]), found["log_end"][1]),
        tuple(found["log_problem"]),
    ]


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
    """They have an unknown lag, say why and of when they are; what was not read is an error."""
    group = apps.name("payments")
    apps.commit(group, {place: 3})
    blocks = blocks_of(tasks_of(apps.cluster))
    gone = replace(apps.cluster, bootstrap_servers="127.0.0.1:1", timeout_s=1)

    found = judged(gone, blocks, RULES)

    (row,) = found["partitions"].set_index("group").loc[[group]].to_dict("records")
    assert (3, True) == (row["committed"], pd.isna(row["lag"]))
    assert "cannot connect" in row["log_problem"]
    read_at = max(block["read_to"]["read_at"] for block in blocks if block["read_to"])
    assert (row["log_read_at"] - read_at).total_seconds() == pytest.approx(row["skew_s"], abs=1e-3)
    said = " ".join(found["problems"]["problem"])
    assert re.search("cannot read (partition )?[0-9]+ .*of the offsets topic", said)


@pytest.mark.parametrize("how", ["damaged", "no folder", "no package"])
def test_an_unusable_history_does_not_affect_the_result(
    apps: Applications,
    place: TopicPartition,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    """Damaged files, or a worker without the driver's folder, are reported."""
    group = apps.name("kept")
    apps.commit(group, {place: 3})
    history = History(str(tmp_path))
    run = history.begin("", NOW)
    in_the_way = tmp_path / "partitions" / f"day={run.day}"
    in_the_way.write_text("no folder")
    next(tmp_path.glob("runs/_delta_log/*.json")).write_text("damaged")
    monkeypatch.setattr("toolkit.spark.history.HAS_DELTALAKE", how != "no package")
    root = str(in_the_way) if how == "no folder" else history.root
    rules = replace(RULES, store=(root, run))
    found = judged(apps.cluster, blocks_of(tasks_of(apps.cluster)), rules)

    assert [7] == list(found["partitions"].set_index("group").loc[[group], "lag"])
    told = " ".join(found["problems"]["problem"])
    assert "log ends of earlier runs" in told
    assert "the results are not in the history" in told


def test_log_ends_of_earlier_runs_are_found_once(tmp_path: Path) -> None:
    """Of each partition the newest first, however many groups and runs have seen them."""
    history = History(str(tmp_path))
    ago = [NOW - timedelta(minutes=10 * number) for number in range(1, 400)]
    rows = [
        {"cluster": cluster, "topic": "t", "partition": 0, "log_read_at": at, "log_end": number}
        for number, at in enumerate(ago)
        for cluster in ("eu", "eu", "us")
    ]
    for number in range(2):
        table = pa.Table.from_pylist(rows, LOG_ENDS)
        store(history, f"r{number}", NOW - timedelta(hours=1 + number), {LOG_ENDS_TABLE: table})
    old = pa.Table.from_pylist([{**rows[0], "partition": 1, "log_end": 9}], LOG_ENDS)
    store(history, "old", NOW - LOOK_BACK - timedelta(minutes=1), {LOG_ENDS_TABLE: old})
    rules = replace(RULES, store=(history.root, history.begin("", NOW)))
    problems: list[str] = []
    (found,) = _past_ends("eu", rules, problems).to_pylist()

    assert ("t", 0, []) == (found["topic"], found["partition"], problems)
    assert list(range(MOST_ENDS)) == [look["log_end"] for look in found["past_ends"]]
    assert [look["at"] for look in found["past_ends"]] == ago[:MOST_ENDS]
