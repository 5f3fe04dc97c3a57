"""What the report of a fleet says first."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pandas as pd
import pytest

from toolkit.journeys.fleet import FleetReport
from toolkit.report.display import HEADLESS_VARIABLE, ROLE_KEY, TONE_KEY
from toolkit.spark.fleet_lag import FleetFrames

Shown = list[dict[str, Any]]

GROUPS = pd.DataFrame(
    [
        ("eu", "slow", "WARN", "WARN", 9_000),
        ("eu", "fine", "OK", "OK", 10),
        ("us", "gone", "ERR", "STOP", 400),
        ("us", "lost", "ERR", "ERR", 500),
        ("us", "left", "ERR", "STOP", 450),
        ("eu", "mute", None, None, None),
    ],
    columns=["cluster", "group", "status", "worst_status", "lag"],
).astype({"lag": "Int64"})


def report(groups: pd.DataFrame) -> FleetReport:
    """Return a report of groups whose offsets are all in range."""
    filled = groups.assign(status_why="because", time_lag_s=134_722.36, lost=0)
    none = pd.DataFrame({"position": pd.Series([], dtype="str")})
    frames = FleetFrames(none, filled, pd.DataFrame(), pd.DataFrame(), pd.DataFrame())
    now = datetime(2026, 3, 1, tzinfo=UTC)
    return FleetReport(("eu", "us"), now, frames, fleet_file="/etc/my fleet.yaml")


def test_unhealthy_groups_are_listed_by_severity_then_by_lag() -> None:
    """ERR comes before WARN however large the lag, and an unknown status last."""
    assert ["left", "gone", "lost", "slow", "mute"] == list(report(GROUPS).unhealthy["group"])


def test_the_conclusion_names_the_worst_groups_and_the_next_step(shown: Shown) -> None:
    """It is as bad as the worst group, and the command diagnoses this one with the same fleet."""
    report(GROUPS).conclude()
    data, metadata = shown[-1]["data"], shown[-1]["metadata"]
    command = (
        "offsetbook run 90_troubleshoot_group -p cluster=us -p groups=left "
        "-p 'fleet_file=/etc/my fleet.yaml'"
    )

    assert {ROLE_KEY: "headline", TONE_KEY: "bad"} == metadata
    assert data["text/html"].index("left") < data["text/html"].index("slow")
    assert "1 d 13 h" in data["text/html"]
    assert command in data["text/plain"]


def test_in_jupyterlab_buttons_lead_on(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for each of the worst groups, in their order."""
    monkeypatch.delenv(HEADLESS_VARIABLE)
    buttons = report(GROUPS).conclude()

    assert shown
    assert buttons is not None
    assert ["left", "gone", "lost", "slow", "mute"] == [
        step.button.split()[1] for step in buttons.steps
    ]


def test_a_healthy_fleet_has_no_next_step(shown: Shown) -> None:
    """Without findings the conclusion is good, and nothing is to be done."""
    assert None is report(GROUPS[GROUPS["status"] == "OK"]).conclude()

    assert {ROLE_KEY: "headline", TONE_KEY: "good"} == shown[-1]["metadata"]
    assert "" == shown[-1]["data"]["text/html"]
