"""A sandbox whose clusters have three brokers each, of which any one may be lost."""

from pathlib import Path

import psutil
import pytest
import yaml
from applications import eventually

from toolkit.errors import UsageError
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.sandbox.broker import brokers_in
from toolkit.sandbox.fleet import Sandbox
from toolkit.storage.fleet_file import load_fleet

pytestmark = [pytest.mark.slow("a cluster of three brokers"), pytest.mark.starts("brokers")]


def test_every_problem_is_seen_also_while_a_broker_is_lost(tmp_path: Path) -> None:
    """It is seeded as with one broker; a lost one is reported, and `up` replaces it."""
    sandbox = Sandbox(tmp_path, brokers=3)
    try:
        sandbox.up(["eu"])
        assert {} == sandbox.status()[0].missing
        brokers = brokers_in(tmp_path / "eu")
        assert [3, 3] == [len(brokers), len(sandbox.status()[0].pids)]
        addresses = yaml.safe_load(sandbox.fleet_file.read_text("utf-8"))["clusters"]["eu"]
        assert ",".join(one.address for one in brokers) == addresses["bootstrap.servers"]

        psutil.Process(brokers[0].pid).kill()
        eventually(lambda: "2 of 3" == sandbox.status()[0].state)
        # Each partition and group has found another broker, and every application its coordinator.
        eventually(lambda: {} == sandbox.status()[0].missing)
        cluster = load_fleet(sandbox.fleet_file)["eu"]
        eventually(lambda: () == read_snapshot(cluster).problems)

        Sandbox(tmp_path).up(["eu"])  # as many as there were
        assert ("running", {}) == (sandbox.status()[0].state, sandbox.status()[0].missing)
        with pytest.raises(UsageError, match="a cluster with 3 brokers, not 1"):
            Sandbox(tmp_path, brokers=1).up(["eu"])
        with pytest.raises(UsageError, match="has one broker"):
            sandbox.up(["eu"], secured=True)
    finally:
        ended = sandbox.down()
    assert ["applications of eu"] + ["broker of eu"] * 3 == ended
    assert "stopped" == sandbox.status()[0].state
