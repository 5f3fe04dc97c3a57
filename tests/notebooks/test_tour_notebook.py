"""The tour: every journey once on a sandbox of its own, and nowhere else."""

from pathlib import Path

import pytest
from applications import eventually
from workspaces import NOTEBOOKS, Workspace

from toolkit.errors import Blocked
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Cluster, TopicPartition
from toolkit.runner.result import RunResult
from toolkit.runner.run_notebook import run_notebook
from toolkit.sandbox.fleet import Sandbox, require_sandbox
from toolkit.sandbox.seed import LEFT_AT, POISON, POISON_OFFSET
from toolkit.storage import audit

pytestmark = [pytest.mark.slow("the whole tour, twice"), pytest.mark.starts("a broker")]

NOTEBOOK = NOTEBOOKS / "00_tour.ipynb"


def committed(cluster: Cluster, group: str) -> dict[TopicPartition, int]:
    commits = read_snapshot(cluster, groups=[group]).commits
    return {TopicPartition(c.topic, c.partition): c.offset for c in commits}


def tour(fleet_file: Path, folder: Path) -> RunResult:
    given = {"fleet_file": str(fleet_file), "state": str(folder / "state")}
    return run_notebook(NOTEBOOK, parameters=given, output_dir=folder / "runs")


def test_every_journey_ends_well_and_again(own_sandbox: Sandbox, tmp_path: Path) -> None:
    """The poison record is passed, leftovers are gone, the dead group is back; twice is no harm."""
    (status,) = own_sandbox.status()
    cluster = Cluster(status.name, status.address)
    result = tour(own_sandbox.fleet_file, tmp_path)

    assert ("done", 0) == (result.status, result.counts["problems"]), result
    eventually(lambda: committed(cluster, "fraud-check")[POISON] > POISON_OFFSET + 1)
    assert {"invoices.issued"} == {p.topic for p in committed(cluster, "billing")}
    assert {LEFT_AT} == {*committed(cluster, "nightly-export").values()}
    groups = read_snapshot(cluster).groups
    assert not [g.group_id for g in groups if g.paused or g.group_id == "nightly-export-copy"]
    requests = [e.request.split()[0] for e in audit.read(tmp_path / "state") if e.event == "intent"]
    fraud, replay = ["pause", "reset", "resume"], ["pause", "move", "resume"]
    assert [*fraud, *replay, "delete", "delete", "undo", "copy", "undo"] == requests
    assert [] == audit.verify(tmp_path / "state")

    again = tour(own_sandbox.fleet_file, tmp_path)
    assert "done" == again.status, again
    assert {LEFT_AT} == {*committed(cluster, "nightly-export").values()}


def test_it_refuses_any_other_cluster(workspace: Workspace) -> None:
    """On loopback, too, a cluster that the sandbox did not start is left alone."""
    told = workspace.cells(NOTEBOOK.stem)

    assert ("blocked", 3) == told.ended
    assert "is not a sandbox cluster" in told.why
    assert not workspace.operator.state.exists()


def test_an_address_proves_nothing(
    own_sandbox: Sandbox, bare_cluster: Cluster, tmp_path: Path
) -> None:
    """What counts is the id that the cluster gives itself, whatever the fleet file calls it."""
    (status,) = own_sandbox.status()
    mine = Cluster("eu", status.address)

    require_sandbox(mine, own_sandbox.fleet_file)
    with pytest.raises(Blocked):
        require_sandbox(Cluster("eu", bare_cluster.bootstrap_servers), own_sandbox.fleet_file)
    with pytest.raises(Blocked):
        require_sandbox(mine, tmp_path / "fleet.yaml")
