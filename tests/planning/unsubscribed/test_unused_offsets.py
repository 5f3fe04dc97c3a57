"""Leftovers of three kinds, each with how that is known; never in contradiction to one another."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pytest
from facts import live, member, snapshot
from frame_rows import ROW, TIMES, typed_frame
from hypothesis import given
from hypothesis import strategies as st

from toolkit.model import Commit, Group, GroupState, GroupType, Snapshot
from toolkit.model.snapshot import NO_TOPIC
from toolkit.planning.frames.snapshot_frames import offsets_frame
from toolkit.planning.lag.lag import with_lag
from toolkit.planning.unsubscribed.unsubscribed_offsets import find_unsubscribed
from toolkit.planning.unsubscribed.unused_offsets import (
    COLUMNS,
    DELETED_TOPIC,
    EMPTY_GROUP,
    LAST_COMMIT,
    OWN_RECORD,
    UNSUBSCRIBED,
    find_unused_offsets,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TOPICS = ("orders", "payments", "audit")


def ago(days: float | None) -> datetime | None:
    return None if days is None else NOW - timedelta(days=days)


def rows(*given: dict[str, Any]) -> pd.DataFrame:
    """Return committed offsets; by default of a group without a protocol. Times are days ago."""
    numbered = ({"partition": number, **row} for number, row in enumerate(given))
    dated = ({k: ago(v) if k in TIMES else v for k, v in row.items()} for row in numbered)
    return typed_frame(dated, {**ROW, "lag": 10})


def found(*given: dict[str, Any]) -> pd.DataFrame:
    """Return what is left over after 30 days."""
    return find_unused_offsets(rows(*given), now=NOW, unused_group_days=30)


CLASSIC = {"type": "classic", "protocol_type": "consumer"}
MODERN = {"type": "consumer", "protocol_type": "consumer"}
LIVE = {**CLASSIC, "state": "Stable", "members": 2}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"committed_at": 31}, (31, LAST_COMMIT)),
        ({"committed_at": 29}, None),
        ({"committed_at": None}, None),
        ({**CLASSIC, "empty_since": 40, "committed_at": 50}, (40, OWN_RECORD)),
        ({**CLASSIC, "empty_since": 40, "committed_at": 31}, (31, LAST_COMMIT)),
        ({**CLASSIC, "empty_since": 40, "committed_at": 3}, None),
        ({**CLASSIC, "empty_since": 29, "committed_at": 90}, None),
        ({**CLASSIC, "committed_at": 90}, None),
        ({**MODERN, "empty_since": 40}, (40, OWN_RECORD)),
        ({**MODERN, "committed_at": 90}, (90, LAST_COMMIT)),
        ({**MODERN, "committed_at": None}, None),
        ({**LIVE, "committed_at": 90, "subscribed": True}, None),
    ],
)
def test_unused_groups(row: dict[str, Any], expected: tuple[float, str] | None) -> None:
    """A group counts as unused if it is known for how long, and from which source."""
    table = found(row)

    about = [(one.kind, one.since, one.source, one.topic) for one in table.itertuples()]
    since, source = expected or (None, None)
    assert [(EMPTY_GROUP, ago(since), source, None)] * bool(expected) == about
    assert table["why"].all()


def test_one_row_for_each_group_with_all_its_lag() -> None:
    """The youngest commit of a group counts, and its lag is a sum only where all of it is known."""
    table = found(
        {"committed_at": 90, "lag": 10},
        {"committed_at": 40, "lag": 5},
        {"group": "unknown", "committed_at": 40, "lag": None},
        {"group": "unknown", "committed_at": 40},
        {"group": "young", "committed_at": 40},
        {"group": "young", "committed_at": 1},
        {"group": "half", "committed_at": 40},
        {"group": "half", "committed_at": None},
    ).set_index("group")

    assert ["g", "unknown"] == list(table.index)
    assert (ago(40), 15) == (table["since"]["g"], table["lag"]["g"])
    assert pd.isna(table["lag"]["unknown"])


def test_the_last_commit_of_a_group_with_members_is_only_a_bound() -> None:
    """Its members may have stayed for long after it, and the row says so."""
    modern, simple = found({**MODERN, "committed_at": 90}, {"group": "simple", "committed_at": 90})[
        "why"
    ]

    assert "may have left later" in modern
    assert modern != simple


def test_offsets_of_deleted_topics() -> None:
    """Each is a row; without subscription, it is listed under both."""
    table = found(
        {**LIVE, "subscribed": True, "log_problem": NO_TOPIC, "lag": None},
        {**LIVE, "subscribed": True, "log_problem": "it has no leader", "lag": None},
        {**LIVE, "subscribed": True, "log_problem": NO_TOPIC, "committed": None},
    )

    assert [(0, DELETED_TOPIC)] == list(zip(table["partition"], table["kind"], strict=True))
    assert {UNSUBSCRIBED, DELETED_TOPIC} == set(found({**LIVE, "log_problem": NO_TOPIC})["kind"])


@pytest.mark.parametrize(
    "row",
    [
        {"subscribed": None},
        {"subscribed": True},
        {"unreadable": "garbled"},
        {"unreadable": None},
        {"committed": None},
        {"members": 0},
        {"state": "Dead"},
        {"state": "Empty", "committed_at": 1},
        {"type": None},
        {"protocol_type": "connect"},
        {"protocol_type": None},
    ],
)
def test_unsubscribed_only_if_it_is_certain(row: dict[str, Any]) -> None:
    """If a subscription may exist, no row is listed."""
    assert [UNSUBSCRIBED] == found(LIVE)["kind"].tolist()
    assert found({**LIVE, **row}).empty


def test_nothing_gives_nothing() -> None:
    """An empty fleet leaves nothing over, in the same form."""
    assert (0, COLUMNS) == (len(found()), list(found().columns))


@st.composite
def groups(draw: st.DrawFn) -> Group:
    subscriptions = st.tuples(
        st.sets(st.sampled_from(TOPICS)), st.sampled_from(["", "", "garbled"])
    )
    return live(
        draw(st.sampled_from("abcdef")),
        *(
            member(*topics, unreadable=unreadable)
            for topics, unreadable in draw(st.lists(subscriptions, max_size=3))
        ),
        type=draw(st.sampled_from([t for t in GroupType if t is not GroupType.SHARE])),
        state=draw(st.sampled_from(GroupState)),
        protocol_type=draw(st.sampled_from([None, "consumer", "consumer", "connect"])),
        described=draw(st.sampled_from([True, True, False])),
    )


def as_rows(facts: Snapshot) -> pd.DataFrame:
    table = with_lag(offsets_frame(facts))
    by_name = {group.group_id: group for group in facts.groups}
    of = [by_name[name] for name in table["group"]]
    subscribed = [
        None if group.unreadable_subscription else topic in group.subscribed_topics
        for group, topic in zip(of, table["topic"], strict=True)
    ]
    members = [len(group.members) if group.described else None for group in of]
    return table.assign(
        type=[str(group.type) for group in of],
        state=[str(group.state) for group in of],
        protocol_type=[group.protocol_type for group in of],
        members=pd.array(members, dtype="Int64"),
        subscribed=pd.array(subscribed, dtype="boolean"),
        unreadable=[group.unreadable_subscription for group in of],
        log_problem="",
        empty_since=pd.Series(pd.NaT, table.index, dtype="datetime64[ms, UTC]"),
    )


@given(
    st.lists(groups(), unique_by=lambda group: group.group_id, max_size=5),
    st.sets(st.tuples(st.sampled_from("abcdef"), st.sampled_from(TOPICS), st.integers(0, 1))),
)
def test_unsubscribed_never_contradicts_the_snapshot(
    drawn: list[Group], committed: set[tuple[str, str, int]]
) -> None:
    """On the same facts the same offsets are unsubscribed as in `find_unsubscribed`."""
    names = {group.group_id for group in drawn}
    commits = tuple(Commit(*key, 10) for key in sorted(committed) if key[0] in names)
    facts = snapshot(*drawn, commits=commits, logs={("orders", 0): (0, 40)})
    table = find_unused_offsets(as_rows(facts), now=NOW, unused_group_days=30)
    expected, found = (
        frame[["group", "topic", "partition", "why"]].itertuples(index=False, name=None)
        for frame in (find_unsubscribed(facts).rows, table[table["kind"] == UNSUBSCRIBED])
    )

    assert sorted(expected) == sorted(found)
