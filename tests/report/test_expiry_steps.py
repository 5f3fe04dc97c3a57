"""What to do about offsets that expire."""

from datetime import timedelta

import pandas as pd
from expiry_facts import T0, forecast

from toolkit.planning.expiry.expiry_forecast import select_expiring
from toolkit.planning.lag.group_summary import FleetFrames
from toolkit.report.fleet_report import ExpiryReport, FleetReport


def test_the_groups_that_are_counted_are_those_of_the_plan() -> None:
    """A step names its groups, so that a later forecast does not plan for others."""
    now = T0 + timedelta(seconds=1)
    names = [("eu", "b"), ("eu", "b"), ("eu", "a*"), ("us", "c")]
    rows = ({"cluster": cluster, "group": group} for cluster, group in names)
    partitions, none = forecast(*rows, now_s=1), pd.DataFrame()
    frames = FleetFrames(partitions, none, none, none, none)
    fleet = FleetReport(("eu", "us"), now, frames)
    found = select_expiring(partitions, now=now, within_s=60)

    steps = {step.title: step.parameters for step in ExpiryReport(fleet, found, "60s").steps}

    assert {"Rescue 2 groups on eu": ['"a*"', "b"], "Rescue 1 group on us": ["c"]} == {
        title: given["groups"] for title, given in steps.items()
    }
    assert all(given["rescue"] for given in steps.values())
