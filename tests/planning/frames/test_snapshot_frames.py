"""Frames show every fact once and invent none."""

from __future__ import annotations

import held
from facts import NOON, live, member, snapshot

from toolkit.model import Commit, GroupType, Problem, TopicPartition
from toolkit.planning.frames.snapshot_frames import groups_frame, offsets_frame, problems_frame
from toolkit.planning.lag.lag_rows import partition_rows


def test_an_owned_partition_without_a_commit_has_a_row() -> None:
    """A partition that a member owns but never committed is there, with its owner and no offset."""
    owner = member("orders", owns=(TopicPartition("orders", 1),))
    facts = snapshot(live("g", owner), commits=(Commit("g", "orders", 0, 7),))
    rows = offsets_frame(facts)

    assert [0, 1] == list(rows["partition"])
    assert [False, True] == list(rows["committed"].isna())
    assert ["", "app @ /10.0.0.1"] == list(rows["owner"])


def test_the_owner_of_a_paused_partition_is_who_has_paused_it() -> None:
    """So its lag is not taken for that of a consumer; rows for tables say the same."""
    unsaid = held.holder(2, note=None, name="!other")
    facts = held.facts(held.group(held.reader("a", 0), held.holder(1), unsaid))
    names = ["a @ /10.0.0.1", "paused by alice @ desk", f"paused by {unsaid.display_name}", ""]

    assert names == list(offsets_frame(facts)["owner"])
    rows = partition_rows(facts)
    at = list(rows.columns).index("owner")
    assert names == [row[at] for row in rows.rows]


def test_a_large_offset_stays_exact_beside_a_missing_one() -> None:
    """An offset beyond the reach of a float is not rounded because another one is unknown."""
    facts = snapshot(
        live("g"),
        commits=(Commit("g", "orders", 0, 2**60 + 1), Commit("g", "orders", 1, 7)),
        logs={("orders", 0): (0, 2**60 + 3), ("orders", 1): (None, None)},
    )
    rows = offsets_frame(facts)

    assert [2**60 + 1, 7] == list(rows["committed"])
    assert 2**60 + 3 == rows["log_end"].iloc[0]


def test_a_share_group_has_no_rows() -> None:
    """A share group keeps no committed offsets, so it is not said to lack one."""
    owner = member("orders", owns=(TopicPartition("orders", 1),))

    assert offsets_frame(snapshot(live("g", owner, type=GroupType.SHARE))).empty


def test_columns_keep_their_types_when_empty() -> None:
    """An empty cluster gives the same columns and types as a full one."""
    facts = snapshot(commits=(Commit("g", "orders", 0, 7, committed_at=NOON),))

    assert dict(offsets_frame(facts).dtypes) == dict(offsets_frame(snapshot()).dtypes)
    assert NOON == offsets_frame(facts)["committed_at"].iloc[0]


def test_members_of_an_undescribed_group_are_unknown_not_none() -> None:
    """A group that could not be described has no member count, not a count of 0."""
    rows = groups_frame(snapshot(live("g", described=False), live("h")))

    assert [True, False] == list(rows["members"].isna())


def test_a_problem_keeps_what_it_is_about() -> None:
    """A problem's row names the subject as far as there is one."""
    (row,) = problems_frame(
        [Problem("log offsets", "no leader", None, "t", 3)], cluster="eu"
    ).to_dict("records")

    assert ("eu", None, "t", 3) == (row["cluster"], row["group"], row["topic"], row["partition"])
