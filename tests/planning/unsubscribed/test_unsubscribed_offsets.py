"""Unsubscribed is not unassigned, and what cannot be said is said to be so."""

from dataclasses import replace

import pytest
from facts import live, member, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.model import Commit, Group, GroupState, GroupType, Problem, TopicPartition, Unread
from toolkit.planning.unsubscribed.unsubscribed_offsets import (
    LEFT_OUT_COLUMNS,
    ROW_COLUMNS,
    find_unsubscribed,
    unsubscribed_topics_by_group,
)

TOPICS = ("orders", "payments", "audit")


def commits(group: str, *topics: str) -> tuple[Commit, ...]:
    """Return a commit at 10 on partition 0 of each topic."""
    return tuple(Commit(group, topic, 0, 10) for topic in topics)


def test_ownership_is_no_subscription() -> None:
    """The subscriptions of members count, whatever they own (KIP-496)."""
    owner = member("orders", owns=(TopicPartition("payments", 0),))
    facts = snapshot(live("g", owner), commits=commits("g", "orders", "payments"))

    assert ["payments"] == list(find_unsubscribed(facts).rows["topic"])


def test_the_share_of_the_lag_and_other_readers() -> None:
    """A row has its share of the group's lag, and the live groups that read the topic."""
    facts = snapshot(
        live("g", member("orders")),
        live("other", member("payments")),
        commits=(*commits("g", "orders", "payments"), *commits("other", "payments")),
        logs={("orders", 0): (0, 40), ("payments", 0): (0, 100)},
    )
    (row,) = find_unsubscribed(facts).rows.to_dict("records")

    assert (90, 0.75) == (row["lag"], row["group_lag_share"])
    assert ("other", True) == (row["other_subscribers"], row["deletable_now"])


def test_a_share_is_not_made_from_a_part_of_the_lag() -> None:
    """Where a lag is unknown so is the share; a leftover of an unknown log is listed as well."""
    facts = snapshot(
        live("g", member("orders")),
        commits=commits("g", "orders", "payments"),
        logs={("payments", 0): (0, 100)},
    )
    found, unread = find_unsubscribed(facts), find_unsubscribed(replace(facts, logs={}))

    assert [90] == found.rows["lag"].tolist()
    assert found.rows["group_lag_share"].isna().all()
    assert found.by_group["subscribed_lag"].isna().all()
    assert [[True, True]] == unread.rows[["lag", "group_lag_share"]].isna().to_numpy().tolist()


def test_a_selection_of_groups_keeps_the_other_readers() -> None:
    """Rows are limited to some groups; the other readers of their topics stay known."""
    facts = snapshot(
        live("billing", member("orders")),
        live("shop", member("payments"), member("audit")),
        commits=(*commits("billing", "payments"), *commits("shop", "orders")),
    )
    (row,) = find_unsubscribed(facts, groups=["bill*"]).rows.to_dict("records")

    assert ("billing", "shop") == (row["group"], row["other_subscribers"])


SIMPLE = live("g", type=GroupType.SIMPLE, state=GroupState.EMPTY, protocol_type=None)


@pytest.mark.parametrize(
    ("group", "word"),
    [
        (live("g", state=GroupState.EMPTY), "Empty"),
        (SIMPLE, "assign()"),
        (live("g", member(), protocol_type="connect"), "connect"),
        (live("g", member("orders"), member(unreadable="garbled")), "garbled"),
        (live("g", described=False), "described"),
        (live("g", state=GroupState.PREPARING_REBALANCE), "forming"),
        (live("g", state=GroupState.DEAD), "Dead"),
        (live("g", member(), type=GroupType.UNKNOWN), "not supported by this version"),
    ],
)
def test_undecided_groups_are_left_out_with_a_reason(group: Group, word: str) -> None:
    """They have no rows."""
    facts = snapshot(group, commits=commits("g", "payments", "audit"))
    found = find_unsubscribed(facts)

    assert (True, {}) == (found.rows.empty, unsubscribed_topics_by_group(facts))
    ((*about, why),) = found.left_out[["group", "commits", "why"]].to_numpy()
    assert (["g", 2], True) == (about, word in why)


def test_by_group_separates_real_lag() -> None:
    """The sum of a group has the lag of subscribed topics apart from the rest."""
    facts = snapshot(
        live("g", member("orders")),
        commits=commits("g", "orders", "payments", "audit"),
        logs={("orders", 0): (0, 15), ("payments", 0): (0, 100), ("audit", 0): (0, 30)},
    )
    (row,) = find_unsubscribed(facts).by_group.to_dict("records")

    assert (5, 110, 2) == (row["subscribed_lag"], row["unsubscribed_lag"], row["topics"])


def test_an_empty_cluster_gives_empty_tables_with_their_columns() -> None:
    """Nothing at all is an answer; a group without commits is not left out either."""
    found = find_unsubscribed(snapshot())
    idle = find_unsubscribed(snapshot(live("g", state=GroupState.EMPTY)))

    assert (list(ROW_COLUMNS), list(LEFT_OUT_COLUMNS)) == (list(found.rows), list(found.left_out))
    assert (True, True) == (found.by_group.empty, idle.left_out.empty)


@settings(max_examples=25)
@given(
    subscribed=st.lists(st.sets(st.sampled_from(TOPICS)), min_size=1, max_size=3),
    committed=st.sets(st.sampled_from(TOPICS)),
)
def test_rows_are_exactly_the_unsubscribed_topics(
    subscribed: list[set[str]], committed: set[str]
) -> None:
    """For any members and commits: committed topics minus the union of subscriptions."""
    group = live("g", *(member(*topics) for topics in subscribed))
    facts = snapshot(group, commits=commits("g", *sorted(committed)))
    found = find_unsubscribed(facts)

    left = committed - set().union(*subscribed)
    assert (left, {"g": left}) == (set(found.rows["topic"]), unsubscribed_topics_by_group(facts))


@pytest.mark.parametrize(
    "problem",
    [
        Problem(Unread.COMMIT, "not authorised", "b", "audit", 0),
        Problem(Unread.COMMITS, "the coordinator is loading", "b"),
    ],
)
def test_a_reading_with_a_gap_is_no_evidence(problem: Problem) -> None:
    """A group without unsubscribed offsets is reported as such, unless it was not fully read."""
    facts = snapshot(
        live("a", member("orders")),
        live("b", member("orders")),
        commits=(*commits("a", "orders"), *commits("b", "payments")),
    )

    assert {"a": set(), "b": {"payments"}} == unsubscribed_topics_by_group(facts)
    assert {"a": set()} == unsubscribed_topics_by_group(replace(facts, problems=(problem,)))
