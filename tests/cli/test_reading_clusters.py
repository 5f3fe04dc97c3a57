"""A command reads its clusters at the same time, and says how far it is."""

import threading
from pathlib import Path

import pytest
from applications import PATIENCE_S

from toolkit.cli.options import CommandScope
from toolkit.cli.progress_line import ProgressOfClusters
from toolkit.cli.reading import read_clusters
from toolkit.errors import ToolkitError
from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.journeys.lag import lag
from toolkit.kafka_io.read_snapshot import Progress
from toolkit.model import Cluster
from toolkit.report.lag_report import LagReport

DOWN = "127.0.0.1:1"


def test_clusters_are_read_at_the_same_time(
    bare_cluster: Cluster, kafka_39: Cluster, tmp_path: Path
) -> None:
    """Each waits until the others are read, too; the answers are in the order of the fleet."""
    servers = {"us": DOWN, "eu": bare_cluster.bootstrap_servers, "ap": kafka_39.bootstrap_servers}
    fleet = tmp_path / "fleet.yaml"
    lines = [f"  {name}: {{bootstrap.servers: '{found}'}}" for name, found in servers.items()]
    fleet.write_text("\n".join(["clusters:", *lines]))
    at_once, told = threading.Barrier(3), list[ToolkitError]()

    def journey(access: ClusterAccess) -> LagReport:
        at_once.wait(PATIENCE_S)
        return lag(access)

    reading = read_clusters(
        CommandScope(fleet, (), (), "json", quiet=True), journey, tell=told.append
    )

    assert ["eu", "ap"] == [facts.cluster for facts in reading.snapshots]
    assert told == reading.errors
    assert ["connecting to cluster us" in str(error) for error in told] == [True]


def test_one_line_shows_the_progress_of_all_clusters(capfd: pytest.CaptureFixture[str]) -> None:
    """How many are read, and the last step of one that is not; a single cluster has its name."""
    eu, us = Cluster("eu", DOWN), Cluster("us", DOWN)
    half = Progress("members", 5, 10)

    line = ProgressOfClusters([eu, us], visible=True)
    line.count()
    line.of(us)(half)
    line.clear()
    alone = ProgressOfClusters([eu], visible=True)
    alone.of(eu)(half)
    alone.clear()

    written = capfd.readouterr().err
    assert "2 clusters: 1 read, us: members 50 %" in written
    assert "eu: members 50 %" in written
