"""What is listed as paused: whose it is, until when, and whether anybody keeps it up."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pandas as pd
import pytest
from facts import NOON
from held import ALICE, NOTE, facts, group, holder, reader

from toolkit.model import HoldNote
from toolkit.planning.holds.paused_frame import paused_frame
from toolkit.planning.holds.paused_rows import PAUSED_COLUMNS

HOUR = timedelta(hours=1)
ABOUT = facts(
    group(
        reader("a", 0),
        holder(3, 1, note=replace(NOTE, until=NOON + HOUR, reason="an incident")),
        holder(2, note=HoldNote("bob", "elsewhere"), name="!i"),
    )
)


def test_one_row_for_each_paused_partition() -> None:
    """In order, with all that its holder says of itself."""
    frame = paused_frame(ABOUT, by=ALICE, kept={"g"})

    assert list(PAUSED_COLUMNS) == list(frame.columns)
    assert [1, 2, 3] == frame["partition"].tolist()
    row = frame.iloc[0]
    told = (
        row["paused_by"],
        row["host"],
        row["paused_since"],
        row["paused_until"],
        row["reason"],
        row["survives_keeper_s"],
    )
    assert (*ALICE, NOON, NOON + HOUR, "an incident", 45.0) == told
    assert frame.loc[1, ["paused_since", "paused_until", "survives_keeper_s"]].isna().all()


@pytest.mark.parametrize(
    ("by", "kept", "how"),
    [
        (ALICE, {"g"}, ["held", "foreign", "held"]),
        (ALICE, {"h"}, ["orphaned", "foreign", "orphaned"]),
        (("alice", "another operator"), {"g"}, ["foreign"] * 3),
        (None, {"g"}, ["foreign"] * 3),
    ],
)
def test_how_it_is_held(by: tuple[str, str] | None, kept: set[str], how: list[str]) -> None:
    """Ours is held while a process keeps it up, and orphaned without; others' are foreign."""
    assert how == paused_frame(ABOUT, by=by, kept=kept)["hold_status"].tolist()


def test_a_hold_without_a_note_is_shown_by_its_host() -> None:
    """Nobody knows whose it is, and it is shown all the same."""
    frame = paused_frame(facts(group(reader("a", 0), holder(1, note=None))), by=ALICE, kept={"g"})
    row = frame.iloc[0]
    assert ("offsetbook-hold", "/10.0.0.9", "foreign") == (
        row["paused_by"],
        row["host"],
        row["hold_status"],
    )


def test_nothing_paused_is_an_empty_frame() -> None:
    """With the same columns and types."""
    frame = paused_frame(facts(group()))
    assert (0, list(PAUSED_COLUMNS)) == (len(frame), list(frame.columns))
    assert isinstance(frame["paused_since"].dtype, pd.DatetimeTZDtype)
