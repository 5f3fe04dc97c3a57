"""The fleet job on real clusters: the same numbers as a snapshot, and no cluster lost."""

import pickle
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import kafka
import pandas as pd
import pytest
from applications import Applications
from fleet_pages import ONE_RUN
from fleet_tasks import rows_of, tasks_of
from kafka.admin import KafkaAdminClient
from pyspark.sql import SparkSession
from stored_runs import stored

from toolkit.errors import ClusterUnreachable
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Cluster, TopicPartition
from toolkit.planning.frames.snapshot_frames import offsets_frame
from toolkit.planning.lag.lag import lag_by_group, with_lag
from toolkit.spark import fleet_lag as job
from toolkit.spark.catch_up import FROM_LOG, PAST_STABLE
from toolkit.spark.fleet_options import FleetOptions
from toolkit.spark.history import LOG_ENDS_TABLE, STATE_TABLE, History
from toolkit.spark.read_tasks import NothingToRead

# Of a cluster that is down.
pytestmark = [
    pytest.mark.slow("many Spark jobs"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.usefixtures("lost_sockets"),
]

KEY = ["cluster", "group", "topic", "partition"]
NUMBERS = ["committed", "log_start", "log_end", "last_stable", "lag", "stable_lag", "lost"]
NOWHERE = Cluster("nowhere", "127.0.0.1:1")


class Quiet(NamedTuple):
    """A cluster that no other test uses, and the groups of this test."""

    cluster: Cluster
    groups: frozenset[str]

    def rows(self, frame: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
        """Return the rows of this test's groups in a fixed order, for comparing."""
        rows = frame[frame["group"].isin(self.groups)].sort_values(columns[:4])
        assert self.groups == set(rows["group"])
        return rows[columns].reset_index(drop=True)


@pytest.fixture
def quiet(exclusive_apps: Applications) -> Quiet:
    """Return a cluster with groups that have committed, deleted and overcommitted offsets."""
    apps = exclusive_apps
    topic = apps.create_topic(apps.name("spark-orders"), partitions=3)
    offsets = {"spark-one": (0, 0), "spark-two": (0, 5), "spark-ü": (0,)}
    groups = {apps.name(stem): each for stem, each in offsets.items()}
    for group, each in groups.items():
        apps.commit(group, {TopicPartition(topic, n): offset for n, offset in enumerate(each)})
    _, two, _ = groups
    with closing(KafkaAdminClient(bootstrap_servers=apps.address)) as deleting:
        deleting.delete_group_offsets(two, [kafka.TopicPartition(topic, 0)])
    return Quiet(apps.cluster, frozenset(groups))


@pytest.mark.default("one Spark run")
def test_the_job_agrees_with_a_snapshot(session: SparkSession, quiet: Quiet) -> None:
    """
    On quiet groups, per partition and per group, also beside a cluster that is down.

    Of a cluster that could not be read the report has a row with its name, and why.
    """
    expected = with_lag(offsets_frame(read_snapshot(quiet.cluster, commit_times=True)))
    with job.fleet_lag(session, [NOWHERE, quiet.cluster]) as result:
        found = result.to_pandas()

    columns = [*KEY, *NUMBERS, "position"]
    pd.testing.assert_frame_equal(
        quiet.rows(expected, columns), quiet.rows(found.partitions, columns), check_dtype=False
    )
    columns = ["cluster", "group", "lag", "lost", "partitions"]
    columns += ["unknown_lag_partitions", "worst_lag"]
    by_group = (quiet.rows(frame, columns) for frame in (lag_by_group(expected), found.groups))
    pd.testing.assert_frame_equal(*by_group, check_dtype=False)
    assert "beyond log end" in set(quiet.rows(found.partitions, [*KEY, "position"])["position"])
    assert {quiet.cluster.name} == set(found.groups["cluster"])
    assert ["nowhere"] == list(found.problems["cluster"])
    assert "cannot connect" in found.problems["problem"].iloc[0]


@pytest.mark.usefixtures("session")
def test_the_page_on_sql_shows_how_tables_of_one_run_are_used(
    exclusive_apps: Applications,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its last block finds the topics with most unread records."""
    apps = exclusive_apps
    topic = apps.create_topic(apps.name("behind"), records=9)
    apps.commit(apps.name("slow"), {TopicPartition(topic, 0): 1})
    text = f"clusters: {{eu: {{bootstrap.servers: '{apps.address}'}}}}"
    (tmp_path / "fleet.yaml").write_text(text)
    monkeypatch.setenv("OFFSETBOOK_FLEET", str(tmp_path / "fleet.yaml"))
    expected = with_lag(offsets_frame(read_snapshot(apps.cluster)))
    names: dict[str, Any] = {}

    exec(ONE_RUN, names)  # noqa: S102 - the page is ours

    lag = expected.groupby("topic")["lag"].sum()
    most = names["most"].set_index("topic")["lag"]
    assert 0 < most.max() == lag.max()
    assert most.to_dict() == {topic: lag[topic] for topic in most.index}


def test_a_fleet_of_which_nothing_can_be_read_is_an_error(session: SparkSession) -> None:
    """A report without any cluster is not a report of no lag."""
    with (
        job.fleet_lag(session, [NOWHERE]) as result,
        pytest.raises(ClusterUnreachable, match="cannot connect"),
    ):
        result.to_pandas()


def test_admin_replaces_the_topic_without_read(quiet: Quiet) -> None:
    """The rows from Admin equal those of the topic, without the commit time, and say so."""
    by_admin = rows_of([NothingToRead(quiet.cluster, by_admin="not authorised")])
    by_log = rows_of(tasks_of(quiet.cluster))
    problem, commits = by_admin.pop(), by_admin

    assert "not authorised" in problem["problem"]
    assert set(positions(commits)) == set(positions(by_log))
    assert {None} == {row["committed_at"] for row in commits}
    assert None not in {row["committed_at"] for row in by_log}
    assert {"admin"} == {row["source"] for row in commits}


def test_commits_behind_an_open_transaction(quiet: Quiet, exclusive_apps: Applications) -> None:
    """Those outside it are read with their time, and say from where; what it changes is pending."""
    apps, group = exclusive_apps, min(quiet.groups)
    topic = apps.create_topic(apps.name("spark-open"), partitions=3, records=9)
    places = [TopicPartition(topic, number) for number in range(3)]
    apps.commit(group, dict.fromkeys(places, 1))
    producer = apps.pending(group, 8, places[0])
    try:
        apps.commit(group, {places[1]: 2})
        found = rows_of(tasks_of(quiet.cluster))
    finally:
        producer.abort_transaction()

    assert [] == [row for row in found if "problem" in row]
    ours = sorted((row for row in found if row["topic"] == topic), key=lambda r: r["partition"])
    assert [(1, True, FROM_LOG), (2, False, PAST_STABLE), (1, False, FROM_LOG)] == [
        (row["committed"], row["pending"], row["source"]) for row in ours
    ]
    assert None not in {row["committed_at"] for row in ours}


def positions(commits: Iterable[Mapping[str, Any]]) -> Iterable[tuple[Any, ...]]:
    return [tuple(row[name] for name in (*KEY[1:], "committed")) for row in commits]


def test_a_second_run_reads_only_new_records(
    session: SparkSession, quiet: Quiet, tmp_path: Path
) -> None:
    """With a history a run continues where the last ended, and its results are stored."""
    frames = []
    for run_id in ("nightly", ""):
        options = FleetOptions(history=str(tmp_path / "history"), run_id=run_id)
        with job.fleet_lag(session, [quiet.cluster], options) as result:
            found = result.to_pandas()
            frames.append(quiet.rows(found.partitions, [*KEY, *NUMBERS, "status"]))
    kept = History(str(tmp_path / "history"))
    rows = stored(kept, "groups").to_pandas()
    state = kept.open(STATE_TABLE)
    reads = state.to_pyarrow_table().to_pandas().groupby("attempt")

    pd.testing.assert_frame_equal(*frames)
    assert found.problems.empty
    assert ["", "it has not been read before"] == sorted(reads["why_full"].unique().explode())
    assert [read for _, read in reads if (read["next_offset"] == read["start"]).all()]
    assert ["nightly", f"{result.taken_at:%Y%m%dT%H%M%S.%fZ}"] == [r.run_id for r in kept.runs()]
    assert quiet.groups <= set(rows["group"])
    assert not rows.duplicated(["run_id", "cluster", "group"]).any()
    ends = stored(kept, LOG_ENDS_TABLE).to_pandas()
    known = found.partitions.dropna(subset="log_end")[["topic", "partition"]].drop_duplicates()
    assert 2 * len(known) == len(ends.drop_duplicates())


def test_the_plan_of_a_job_holds_no_secret(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A password given by reference is in no option, plan or row that Spark could show."""
    monkeypatch.setenv("FLEET_PASSWORD", "hunter-two")
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.password": "${env:FLEET_PASSWORD}"}
    cluster = Cluster("nowhere", "127.0.0.1:1", settings)
    with job.fleet_lag(session, [cluster]) as result:
        shown = result.problems._jdf.queryExecution().toString()
        rows = result.problems.toArrow().to_pylist()

    assert "hunter-two" not in shown + str(rows)
    assert b"hunter-two" not in pickle.dumps(tasks_of(cluster))


@pytest.mark.usefixtures("session")
def test_the_command_writes_parquet_and_never_over_it(
    quiet: Quiet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The job from a shell leaves Parquet in a new folder; an existing folder stops it."""
    fleet = tmp_path / "fleet.yaml"
    address = quiet.cluster.bootstrap_servers
    fleet.write_text(f"clusters:\n  quiet:\n    bootstrap.servers: {address}\n", "utf-8")
    arguments = ["--fleet", str(fleet), "--output", str(fleet.parent / "lag")]

    assert 0 == job.main(arguments)
    written = pd.read_parquet(fleet.parent / "lag" / "groups")
    assert quiet.groups <= set(written["group"])
    assert 1 == job.main(arguments)
    assert "exists" in capsys.readouterr().err
