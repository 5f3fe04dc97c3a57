"""What the offsets topic and coordinators tell of a group, put together."""

from __future__ import annotations

from datetime import UTC, datetime

import pandas as pd
import pytest

from toolkit.planning.unsubscribed.group_facts import group_facts

SINCE = datetime(2026, 3, 1, tzinfo=UTC)
LOGGED = {
    "cluster": "eu",
    "type": "classic",
    "protocol_type": "consumer",
    "state": "Stable",
    "members": 2,
    "epoch": 7,
    "empty_since": None,
    "subscribed": ["orders"],
    "unreadable": "",
}


def facts(told: list[tuple[str, ...]], *, complete: bool = True, **logged: object) -> pd.Series:
    """Return what is known of one group, which is called g."""
    frame = pd.DataFrame([{"group": "g", **LOGGED, **logged}])
    frame = frame.astype({"members": "Int64", "epoch": "Int64"})
    frame["empty_since"] = pd.to_datetime(frame["empty_since"], utc=True)
    listed = pd.DataFrame(told, columns=["group", "type", "state", "protocol_type"])
    (found,) = group_facts(frame, listed, complete=complete).to_dict("records")
    return pd.Series(found)


def test_a_coordinator_knows_the_state_and_the_log_the_subscription() -> None:
    """Each tells what it knows best."""
    known = facts([("g", "classic", "Stable", "consumer")])

    assert ("Stable", 2, ["orders"], "") == tuple(
        known[["state", "members", "subscribed", "unreadable"]]
    )


@pytest.mark.parametrize(("complete", "state"), [(True, "Dead"), (False, "Unknown")])
def test_a_group_that_is_not_listed(*, complete: bool, state: str) -> None:
    """It is gone where all groups could be listed; where not, nothing is said of it."""
    other = [("other", "classic", "Stable", "consumer")]

    assert state == facts(other, complete=complete)["state"]
    assert state == facts([], complete=complete)["state"]


def test_a_group_that_became_empty_since_has_no_members() -> None:
    """The log was read a little earlier; its subscription is no longer true."""
    known = facts([("g", "classic", "Empty", "consumer")], empty_since=SINCE)

    assert ("Empty", 0) == tuple(known[["state", "members"]])
    assert pd.isna(known["subscribed"])
    assert SINCE == known["empty_since"]


def test_members_that_came_since_the_log_was_read_are_not_guessed() -> None:
    """A live group without members in the log has a subscription that is not known."""
    known = facts([("g", "classic", "Stable", "consumer")], members=0, subscribed=[])

    assert known["unreadable"]
    assert pd.isna(known["subscribed"])
    assert pd.isna(known["members"])
