"""Why offsets were removed, how busy groups are, and what two sources tell of a group."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.planning.unsubscribed.group_activity import (
    ACTIVITY_COLUMNS,
    DELETED,
    EXPIRED,
    REMOVED,
    activity_by_group,
    group_facts,
    with_removal_kinds,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
NOW = NOON + 2.5 * HOUR
TIMES = ("removed_at", "committed_at", "expire_at", "empty_since")
ACTIVITY = ["cluster", "group", "hour", "bytes", "commits", "rebalances", "complete"]
R_S, I_S = 60, 10


def removals(*rows: dict[str, Any]) -> pd.DataFrame:
    """Return removed offsets; what a test does not name is not known. Times are s after noon."""
    named = ["cluster", "group", "committed", *TIMES, "group_kind"]
    table = pd.DataFrame([{"cluster": "eu", "group": "g", **row} for row in rows], columns=named)
    for name in TIMES:
        moments = [None if pd.isna(s) else NOON + timedelta(seconds=s) for s in table[name]]
        table[name] = pd.Series(pd.to_datetime(moments, utc=True)).astype("datetime64[ms, UTC]")
    return table.astype({"committed": "Int64", "group_kind": "object"})


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        # Simple, KIP-848 and streams groups, and live classic ones: one retention after the commit.
        ({"committed_at": 0, "removed_at": 59.9}, DELETED),
        ({"committed_at": 0, "removed_at": 60}, EXPIRED),
        ({"committed_at": 0, "removed_at": 70.9, "group_kind": "consumer"}, EXPIRED),
        ({"committed_at": 0, "removed_at": 60.2, "group_kind": "streams"}, EXPIRED),
        ({"committed_at": 0, "removed_at": 30, "group_kind": "classic"}, DELETED),
        # A subscribed topic is protected until the group is Empty: that, or a deletion.
        ({"committed_at": 0, "removed_at": 500, "group_kind": "consumer"}, REMOVED),
        # A classic group that is Empty has one clock, whatever was committed since.
        (
            {"committed_at": 50, "empty_since": 5, "removed_at": 66, "group_kind": "classic"},
            EXPIRED,
        ),
        (
            {"committed_at": 0, "empty_since": 50, "removed_at": 65, "group_kind": "classic"},
            DELETED,
        ),
        # That clock is dropped when a member of another protocol has joined.
        (
            {"committed_at": 0, "empty_since": 50, "removed_at": 65, "group_kind": "consumer"},
            EXPIRED,
        ),
        # An offset with a time of its own goes by that alone.
        ({"committed_at": 0, "expire_at": 20, "removed_at": 21}, EXPIRED),
        ({"committed_at": 0, "expire_at": 90, "removed_at": 61}, DELETED),
        ({"expire_at": 90, "empty_since": 1, "removed_at": 62, "group_kind": "classic"}, DELETED),
        # Without the value before it, nothing can be told.
        ({"committed": None, "committed_at": 0, "removed_at": 60}, REMOVED),
        ({"committed": None, "empty_since": 0, "removed_at": 1, "group_kind": "classic"}, REMOVED),
        ({"committed_at": None, "removed_at": 60}, REMOVED),
    ],
)
def test_why_an_offset_was_removed(row: dict[str, Any], kind: str) -> None:
    """Each row of the decision table has its timer; before it is due the offset was deleted."""
    (result,) = with_removal_kinds(
        removals({"committed": 7, **row}), retention_s=R_S, check_interval_s=I_S
    ).itertuples()

    assert kind == result.kind
    assert result.why


@pytest.mark.parametrize("setting", ["retention_s", "check_interval_s"])
def test_without_a_setting_less_is_known(setting: str) -> None:
    """Without the retention nothing; without the interval only removals that came too early."""
    rows = removals(
        {"committed": 7, "committed_at": 0, "removed_at": 20},
        {"committed": 7, "committed_at": 0, "removed_at": 61},
    )
    settings: dict[str, Any] = {"retention_s": R_S, "check_interval_s": I_S, setting: None}
    result = with_removal_kinds(rows, **settings)["kind"].tolist()

    assert [REMOVED if setting == "retention_s" else DELETED, REMOVED] == result


def test_settings_of_many_clusters_are_columns() -> None:
    """Each row goes by the settings of its own cluster."""
    rows = removals(*[{"committed": 7, "committed_at": 0, "removed_at": 61}] * 3)
    rows = rows.set_axis([5, 5, 9])
    retention = pd.Series([60, 100, None], rows.index, dtype="Int64")
    result = with_removal_kinds(rows, retention_s=retention, check_interval_s=I_S)

    assert [EXPIRED, DELETED, REMOVED] == result["kind"].tolist()
    pd.testing.assert_frame_equal(rows, result[rows.columns])


@given(
    st.sampled_from([None, "classic", "consumer", "streams"]),
    *[st.one_of(st.none(), st.integers(0, 300))] * 3,
    st.integers(0, 400),
)
def test_never_expired_before_its_time(
    kind: str | None, committed: int | None, expire: int | None, empty: int | None, removed: int
) -> None:
    """Nothing is called expired that no clock had reached, or that was overdue for long."""
    row = {"committed": 7, "committed_at": committed, "expire_at": expire, "empty_since": empty}
    rows = removals({**row, "removed_at": removed, "group_kind": kind})
    (found,) = with_removal_kinds(rows, retention_s=R_S, check_interval_s=I_S)["kind"]
    dues = [at + R_S for at in (committed, empty) if at is not None]
    dues += [expire] if expire is not None else []

    if found == EXPIRED:
        assert any(0 <= removed - due <= I_S + 1 for due in dues)
    if found == DELETED:
        assert any(removed < due for due in dues)


def activity(*rows: tuple[Any, ...]) -> pd.DataFrame:
    """Return activity: group, hours after noon, commits, rebalances, complete."""
    cells = [
        ("eu", group, NOON + timedelta(hours=hour), 100 * commits, commits, rebalances, complete)
        for group, hour, commits, rebalances, complete in rows
    ]
    table = pd.DataFrame(cells, columns=ACTIVITY)
    hours = pd.Series(pd.to_datetime(table["hour"], utc=True)).astype("datetime64[ms, UTC]")
    return table.assign(hour=hours, first_at=hours)


def summed(
    *rows: tuple[Any, ...],
    partitions: int = 1,
    removed: pd.DataFrame | None = None,
    since: datetime = NOON + HOUR,
    **columns: Any,
) -> pd.DataFrame:
    """Return the sum over the time from 13:00 to 14:30."""
    commits = pd.DataFrame({"cluster": "eu", "group": ["g"] * partitions})
    return activity_by_group(
        activity(*rows).assign(**columns),
        removals().assign(kind=None) if removed is None else removed,
        since=since,
        now=NOW,
        commits=commits,
    )


def test_counts_are_of_hours_and_rates_of_the_window() -> None:
    """What is older does not count, and rates are over all of it; it may begin within an hour."""
    table = summed(("g", 0, 9000, 9, True), ("g", 1, 540, 1, True), ("g", 2, 5400, 2, True))
    columns = ["window_from", "commits", "commits_per_s", "rebalances", "bytes_per_s", "complete"]
    assert [[NOON + HOUR, 5940, 1.1, 3, 110, True]] == table[columns].to_numpy().tolist()

    began = NOW - timedelta(minutes=10)
    table = summed(("g", 2, 600, 0, True), since=began)
    assert [[began, 600, 1.0]] == table[columns[:3]].to_numpy().tolist()


@pytest.mark.parametrize(("minutes", "commits", "rate"), [(10, 600, 1.0), (0.5, 30, 0.5)])
def test_a_young_group_has_its_rate_since_its_first_record(
    minutes: float, commits: int, rate: float
) -> None:
    """The window of a cluster that was started ten minutes ago does not begin an hour ago."""
    began = NOW - timedelta(minutes=minutes)
    first_at = pd.Series([began], dtype="datetime64[ms, UTC]")
    (row,) = summed(("g", 2, commits, 0, True), first_at=first_at, partitions=0).itertuples()

    assert (began, rate) == (row.window_from, row.commits_per_s)


def test_removals_are_counted_by_kind() -> None:
    """Expirations, deletions and undecided ones are counted apart; older ones do not count."""
    kinds = [EXPIRED, EXPIRED, DELETED, REMOVED, DELETED]
    rows = [{"removed_at": 7200}] * 4 + [{"removed_at": 3599}]
    gone = removals(*rows).assign(kind=kinds)
    other = removals({"group": "gone", "removed_at": 7200}).assign(kind=DELETED)
    table = summed(("g", 2, 5, 0, True), removed=pd.concat([gone, other]))
    counts = table.set_index("group")[["commits", "expirations", "deletions", "removals"]]

    assert [5, 2, 1, 1] == counts.loc["g"].tolist()
    assert [0, 0, 1, 0] == counts.loc["gone"].tolist()


@pytest.mark.parametrize(
    ("commits", "complete", "partitions", "hot", "says"),
    [
        (10_800, True, 1, False, ""),  # 2.0 a second
        (10_801, True, 1, True, ""),
        (10_801, True, 2, False, ""),
        (10_801, False, 1, True, ""),  # there were even more
        (10_800, False, 1, None, ""),
        (10_800, True, 0, False, ""),  # for one partition it would not be too much
        (10_801, True, 0, None, ""),
        # A group that commits seldom has a number of commits per hour, which is never zero.
        (540, False, 1, None, "at least 0.10 commits/s per partition; "),
        (27, False, 1, None, "at least 18 commits/h per partition; "),
        (3, False, 2, None, "at least 1 commits/h per partition; "),
        (1, False, 0, None, "at least 0.67 commits/h per partition; "),
    ],
)
def test_hot_groups(
    *, commits: int, complete: bool, partitions: int, hot: bool | None, says: str
) -> None:
    """A group that commits each of its partitions ten times as often as clients do is hot."""
    (row,) = summed(("g", 1, commits, 0, complete), partitions=partitions).itertuples()

    assert hot == (None if pd.isna(row.commits_too_often) else row.commits_too_often)
    assert row.why
    assert row.why.startswith(says)


def test_nothing_gives_nothing() -> None:
    """Without activity and removals there are no rows, with all columns."""
    table = summed()

    assert (0, ACTIVITY_COLUMNS) == (len(table), list(table.columns))
    assert 0 == len(with_removal_kinds(removals(), retention_s=R_S, check_interval_s=I_S))


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


def facts(groups: list[tuple[str, ...]], *, complete: bool = True, **logged: object) -> pd.Series:
    frame = pd.DataFrame([{"group": "g", **LOGGED, **logged}])
    frame = frame.astype({"members": "Int64", "epoch": "Int64"})
    frame["empty_since"] = pd.to_datetime(frame["empty_since"], utc=True)
    listed = pd.DataFrame(groups, columns=["group", "type", "state", "protocol_type"])
    (found,) = group_facts(frame, listed, complete=complete).to_dict("records")
    return pd.Series(found)


def test_a_coordinator_knows_the_state_and_the_log_the_subscription() -> None:
    """Each tells what it knows best; what has changed since the log was read is not guessed."""
    stable, empty = (("g", "classic", state, "consumer") for state in ("Stable", "Empty"))
    known, left = facts([stable]), facts([empty], empty_since=SINCE)
    came = facts([stable], members=0, subscribed=[])

    columns = ["state", "members", "subscribed", "unreadable"]
    assert ["Stable", 2, ["orders"], ""] == known[columns].tolist()
    assert ["Empty", 0, SINCE] == left[["state", "members", "empty_since"]].tolist()
    assert came["unreadable"]
    for value in (left["subscribed"], came["subscribed"], came["members"]):
        assert pd.isna(value)


@pytest.mark.parametrize(("complete", "state"), [(True, "Dead"), (False, "Unknown")])
def test_a_group_that_is_not_listed(*, complete: bool, state: str) -> None:
    """It is gone if all groups could be listed; otherwise its state is unknown."""
    for listed in ([], [("other", "classic", "Stable", "consumer")]):
        assert state == facts(listed, complete=complete)["state"]
