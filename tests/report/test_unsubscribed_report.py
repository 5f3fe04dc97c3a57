"""What the report of a fleet's unsubscribed offsets says and leads on to."""

from dataclasses import replace

import pytest
from facts import live, member, snapshot

from toolkit.model import Commit, Problem
from toolkit.planning.frames.snapshot_frames import problems_of_clusters
from toolkit.planning.unsubscribed.unsubscribed_offsets import find_unsubscribed
from toolkit.report.unsubscribed_report import FleetUnsubscribed, UnsubscribedReport


def report(cluster: str, *topics: str) -> UnsubscribedReport:
    """Return the report of a cluster with a group g, which committed to topics it left."""
    facts = snapshot(
        live("g", member("orders")),
        commits=tuple(Commit("g", topic, 0, 10) for topic in topics),
        logs={(topic, 0): (0, 100) for topic in topics},
    )
    facts = replace(facts, cluster=cluster)
    return UnsubscribedReport(facts, find_unsubscribed(facts))


@pytest.fixture
def fleet() -> FleetUnsubscribed:
    """Return the report of two clusters, both with a group g, and of one that does not answer."""
    problems = problems_of_clusters([("eu", []), ("down", [Problem("cluster", "no answer")])])
    reports = (report("eu", "audit"), report("us", "audit", "payments"))
    return FleetUnsubscribed(reports, problems, "fleet.yaml")


def test_a_fleet_is_summed_up_in_the_sentence_of_a_cluster(fleet: FleetUnsubscribed) -> None:
    """Groups of one name on two clusters are two; a cluster that was not read is an error."""
    assert (
        "us: 2 unsubscribed offsets in 1 group, whose lag of 180 they will not read; "
        "0 groups skipped, 0 read errors."
    ) == fleet.reports[1].summary
    assert (
        "2 clusters: 3 unsubscribed offsets in 2 groups, whose lag of 270 they will not read; "
        "0 groups skipped, 1 read error."
    ) == fleet.summary
    assert [("eu", "audit"), ("us", "audit"), ("us", "payments")] == sorted(
        zip(fleet.rows["cluster"], fleet.rows["topic"], strict=True)
    )


def test_a_lag_that_is_unknown_is_not_called_none(fleet: FleetUnsubscribed) -> None:
    """The sentence stands above the button that deletes."""
    us = fleet.reports[1]
    half = replace(us.facts, logs={place: us.facts.logs[place] for place in [*us.facts.logs][:1]})
    none = replace(us.facts, logs={})
    told = [UnsubscribedReport(one, find_unsubscribed(one)).summary for one in (half, none)]

    assert "whose lag of at least 90 (1 unknown) they will not read" in told[0]
    assert "whose lag of at least 0 (2 unknown) they will not read" in told[1]


def test_the_only_cluster_that_was_read_is_not_all(fleet: FleetUnsubscribed) -> None:
    """The other one, which is down, is an error of the fleet."""
    alone = replace(fleet, reports=fleet.reports[1:])

    assert alone.summary.startswith("us: 2 unsubscribed offsets in 1 group")
    assert alone.summary.endswith("0 groups skipped, 1 read error.")


def test_the_cluster_with_the_largest_lag_is_cleaned_first(fleet: FleetUnsubscribed) -> None:
    """There is a step for each cluster, with the parameters of its notebook."""
    opened = replace(fleet, open_steps=list).show_next_steps()

    assert fleet.steps == opened
    assert ["us", "eu"] == [step.parameters["cluster"] for step in fleet.steps]
    assert {
        "cluster": "us",
        "fleet_file": "fleet.yaml",
        "groups": ["g"],
        "unsubscribed": True,
    } == fleet.steps[0].parameters
