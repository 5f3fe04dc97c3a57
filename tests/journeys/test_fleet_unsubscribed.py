"""Unsubscribed offsets of a fleet, where one cluster listed only some of its groups."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from facts import live, member, snapshot

from toolkit.errors import BrokerRefused, NotFound
from toolkit.journeys.fleet_unsubscribed import unsubscribed
from toolkit.model import Cluster, Problem, Snapshot, Unread

SILENT = Problem(Unread.GROUPS, "those coordinated by broker 2: it did not answer")


@pytest.fixture
def fleet_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a fleet of `eu`, whose broker 2 is silent, and `us`; both listed one group."""
    known = {
        "eu": replace(snapshot(live("shop", member("orders"))), problems=(SILENT,)),
        "us": replace(snapshot(live("pay", member("orders"))), cluster="us"),
    }

    def read(cluster: Cluster, **_: Any) -> Snapshot:
        return known[cluster.name]

    monkeypatch.setattr("toolkit.journeys.unsubscribed.read_snapshot", read)
    path = tmp_path / "fleet.yaml"
    lines = [f"  {name}: {{bootstrap.servers: 'localhost:1'}}" for name in known]
    path.write_text("\n".join(["clusters:", *lines]))
    return path


def test_a_group_that_may_not_have_been_listed_is_a_problem(fleet_file: Path) -> None:
    """The cluster that may have the group is not left out, as one that has no such group is."""
    found = unsubscribed(groups=["pay"], fleet_file=fleet_file)
    other = unsubscribed(groups=["shop"], fleet_file=fleet_file)

    assert ["us"] == [report.facts.cluster for report in found.reports]
    (problem,) = found.problems.to_dict("records")
    assert "eu" == problem["cluster"]
    assert SILENT.why in problem["why"]
    assert found.summary.endswith("1 read error.")
    assert (["eu"], ["eu"]) == (
        [report.facts.cluster for report in other.reports],
        [*other.problems["cluster"]],
    )


def test_a_missing_group_is_reported_only_if_all_were_listed(fleet_file: Path) -> None:
    """Otherwise the reason is the broker that did not respond."""
    with pytest.raises(NotFound):
        unsubscribed("us", ["nobody"], fleet_file=fleet_file)
    with pytest.raises(BrokerRefused, match="broker 2"):
        unsubscribed(groups=["nobody"], fleet_file=fleet_file)
