from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pandas as pd
import pytest
from facts import NOON, live, member, snapshot
from hypothesis import given
from hypothesis import strategies as st

from toolkit.model import (
    HOLDER_CLIENT_ID,
    Commit,
    Group,
    GroupState,
    GroupType,
    LogOffsets,
    Member,
    Snapshot,
    Subscription,
    TopicPartition,
)
from toolkit.model.records import FirstRecord
from toolkit.planning.diagnosis.next_steps import next_steps
from toolkit.planning.diagnosis.progress_diagnosis import diagnose_partitions
from toolkit.planning.diagnosis.progress_rules import Verdict
from toolkit.planning.frames.snapshot_frames import members_frame

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
MINUTE = timedelta(minutes=1)
READER = live("payments", member("orders", owns=(P0, P1)))
LONG_AGO = NOON - 30 * MINUTE
LONG_WAITS = dict.fromkeys((P0, P1), FirstRecord(found=True, at=LONG_AGO))


def look(
    committed: dict[TopicPartition, int],
    *,
    at: datetime = NOON,
    group: Group | None = READER,
    committed_at: datetime | None = LONG_AGO,
    logs: dict[Any, Any] | None = None,
) -> Snapshot:
    """Return one look at the group; every log goes from 0 to 100 unless it is said."""
    commits = tuple(
        Commit("payments", *partition, offset, committed_at=committed_at)
        for partition, offset in committed.items()
    )
    ends = logs or dict.fromkeys(committed, (0, 100))
    return replace(snapshot(*([group] if group else []), commits=commits, logs=ends), taken_at=at)


def judge(first: Snapshot, second: Snapshot, **facts: Any) -> pd.DataFrame:
    """Return what two looks say, with records that wait for half an hour where nothing is said."""
    known = {"first_unread": LONG_WAITS, "stuck_after_s": 60.0, **facts}
    return diagnose_partitions(first, second, group_id="payments", **known)


def verdict(first: Snapshot, second: Snapshot, **facts: Any) -> tuple[str, str]:
    """Return the verdict on partition 0 and why."""
    frame = judge(first, second, **facts).set_index(["topic", "partition"])
    row = frame.loc[tuple(P0)]
    return row["verdict"], row["why"]


LATER = NOON + timedelta(seconds=10)


def test_the_one_that_stands_still_is_stuck() -> None:
    """The partition whose commit stays while records wait is stuck, and the others are not."""
    frame = judge(look({P0: 50, P1: 50}), look({P0: 50, P1: 90}, at=LATER))

    assert [("stuck", 0), ("progressing", 1)] == list(
        zip(frame["verdict"], frame["partition"], strict=True)
    )
    why = frame["why"][0]
    assert "committed offset 50 unchanged for at least 30 min 10 s" in why
    assert "lag 50, the oldest unread record was written 30 min 10 s ago" in why
    assert "other partitions of this owner made progress" in why
    assert [0, 40] == frame["committed_delta"].tolist()


def test_only_markers_follow() -> None:
    """A group that has read all committed records is caught up, though the log has an end later."""
    nothing = {P0: FirstRecord(found=False)}

    assert ("caught up", "caught up: no committed record follows") == verdict(
        look({P0: 99}), look({P0: 99}, at=LATER), first_unread=nothing
    )


RECENT = NOON - timedelta(seconds=30)


@pytest.mark.parametrize(
    ("before", "after", "first_unread", "said"),
    [
        (
            {},
            {},
            {P0: FirstRecord(found=True, at=LATER - timedelta(seconds=20))},
            "not for longer than 1 min",
        ),
        ({}, {}, {}, "age of the oldest unread record unknown"),
        (
            {"committed_at": RECENT},
            {"committed_at": RECENT},
            LONG_WAITS,
            "not for longer than 1 min",
        ),
        ({"committed_at": None}, {"committed_at": None}, LONG_WAITS, "commit time unknown"),
        # Old records that were written only just now, as in a backfill.
        ({"logs": {P0: (0, 50)}}, {}, LONG_WAITS, "no lag in the first sample"),
    ],
    ids=[
        "young record",
        "record of unknown age",
        "fresh commit",
        "commit of unknown age",
        "backfill",
    ],
)
def test_without_all_of_the_evidence_it_is_stuck_perhaps(
    before: dict[str, Any], after: dict[str, Any], first_unread: dict[Any, FirstRecord], said: str
) -> None:
    """A record that may be young, or a commit that may be, is no proof."""
    first, second = look({P0: 50}, **before), look({P0: 50}, at=LATER, **after)
    found, why = verdict(first, second, first_unread=first_unread)

    assert "possibly stuck" == found, why
    assert said in why


def test_looks_that_lie_far_apart_need_no_commit_times() -> None:
    """Where the offsets topic may not be read, two looks with stuck_after between them tell."""
    first = look({P0: 50}, committed_at=None)
    second = look({P0: 50}, at=NOON + 2 * MINUTE, committed_at=None)

    assert "stuck" == verdict(first, second)[0]
    assert "stuck" == verdict(first, second, first_unread={})[0]


def holder() -> Member:
    """Return a member of ours that holds partition 0."""
    subscription = Subscription(frozenset({"orders"}))
    return Member("h-1", HOLDER_CLIENT_ID, "/10.0.0.9", subscription, (P0,), holds=(P0,))


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        (look({P0: 100}), Verdict.CAUGHT_UP),
        (look({P0: 40}), Verdict.PROGRESSING),
        (look({P0: 50}, logs={P0: (0, 40)}), Verdict.OUT_OF_RANGE),
        (look({P0: 50}, logs={P0: (60, 100)}), Verdict.OUT_OF_RANGE),
        (look({P0: 50}, logs={P0: (None, None)}), Verdict.UNKNOWN),
        (look({P0: 50}, group=None), Verdict.UNKNOWN),
        (look({P0: 50}, group=live("payments", described=False)), Verdict.UNKNOWN),
        (look({P0: 50}, group=live("payments", state=GroupState.EMPTY)), Verdict.NO_MEMBERS),
        (look({P0: 50}, group=live("payments", member("invoices"))), Verdict.UNSUBSCRIBED),
        (look({P0: 50}, group=live("payments", member(unreadable="odd bytes"))), Verdict.STUCK),
        (look({P0: 50}, group=live("payments", holder())), Verdict.PAUSED),
        (
            replace(look({P0: 50}), logs={P0: LogOffsets(0, 100, last_stable=50)}),
            Verdict.TRANSACTION,
        ),
    ],
)
def test_other_reasons_to_stand_still_have_their_own_word(
    second: Snapshot, expected: Verdict
) -> None:
    """What stands still for a known reason is not called stuck; what cannot be said is not said."""
    first = look({P0: 100 if expected is Verdict.CAUGHT_UP else 50})

    assert str(expected) == verdict(first, replace(second, taken_at=LATER))[0]


def test_owned_without_a_commit_is_not_known() -> None:
    """A partition that a member owns and nobody committed has a row without a number."""
    (found, why) = verdict(look({}), look({}, at=LATER, logs={P0: (0, 100)}))

    assert ("unknown", True) == (found, "no committed offset" in why)


@given(
    committed=st.tuples(st.integers(0, 120), st.integers(0, 120)),
    log=st.tuples(st.integers(0, 60), st.integers(60, 120)),
    age_s=st.none() | st.floats(0, 10_000),
    waited_s=st.none() | st.floats(0, 10_000),
    apart_s=st.floats(0, 1_000),
)
def test_never_stuck_without_all_of_the_evidence(
    committed: tuple[int, int],
    log: tuple[int, int],
    age_s: float | None,
    waited_s: float | None,
    apart_s: float,
) -> None:
    """Stuck means: records waited at both looks, the commit stayed, and both beyond stuck_after."""
    stuck_after_s = 60.0
    before, after = committed
    at = NOON + timedelta(seconds=apart_s)
    ago = {"committed_at": None if age_s is None else at - timedelta(seconds=age_s)}
    since = (
        {}
        if waited_s is None
        else {P0: FirstRecord(found=True, at=at - timedelta(seconds=waited_s))}
    )
    first, second = (look({P0: o}, logs={P0: log}, **ago) for o in (before, after))
    found, _ = verdict(
        first, replace(second, taken_at=at), first_unread=since, stuck_after_s=stuck_after_s
    )

    if found == Verdict.STUCK:
        assert before == after < log[1]
        assert after >= log[0]
        assert max(age_s or 0, apart_s) > stuck_after_s
        assert max(waited_s or 0, apart_s) > stuck_after_s
    if before != after and log[0] <= after <= log[1]:
        assert found == Verdict.PROGRESSING


def test_stuck_leads_to_a_pause_a_move_and_a_resume() -> None:
    """The steps for a stuck partition name it, and the offset behind the record it is stuck at."""
    frame = judge(look({P0: 50, P1: 50}), look({P0: 50, P1: 90}, at=LATER))
    pause, move, resume = next_steps(frame, READER, cluster="eu")

    assert ("40_pause_partitions", {"groups": ["payments"], "topics": ["orders:0"]}) == (
        pause.notebook,
        pause.parameters,
    )
    assert ("50_reset_offsets", "to-offset", "51", ["orders:0"]) == (
        move.notebook,
        *(move.parameters[name] for name in ("mode", "value", "topics")),
    )
    assert "resume" == resume.parameters["action"]


@pytest.mark.parametrize(
    ("second", "notebooks"),
    [
        (look({P0: 50}, group=live("payments", member("invoices"))), ["60_delete_offsets"]),
        (
            look({P0: 50}, group=live("payments", state=GroupState.EMPTY)),
            ["30_expiry_forecast", "61_delete_groups"],
        ),
        (look({P0: 50}, logs={P0: (60, 100)}), ["50_reset_offsets"]),
        (look({P0: 50}, group=live("payments", holder())), ["40_pause_partitions"]),
        (replace(look({P0: 50}), logs={P0: LogOffsets(0, 100, last_stable=50)}), [""]),
        (look({P0: 50}, committed_at=None), ["90_troubleshoot_group"]),
        (look({P0: 90}), ["10_fleet_lag"]),
    ],
)
def test_every_finding_leads_somewhere(second: Snapshot, notebooks: list[str]) -> None:
    """Each verdict names the notebook that helps, and without any there is one all the same."""
    frame = judge(look({P0: 50}), replace(second, taken_at=LATER))
    (group,) = second.groups

    assert notebooks == [s.notebook for s in next_steps(frame, group, cluster="eu")]


def test_a_share_group_has_no_partitions_to_judge() -> None:
    """Groups without committed offsets give an empty frame with all its columns."""
    group = live("payments", member("orders", owns=(P0,)), type=GroupType.SHARE)
    frame = judge(look({}, group=group), look({}, group=group, at=LATER))

    assert ([], True) == (list(frame.index), {"verdict", "why", "lag"} <= set(frame.columns))
    assert ["10_fleet_lag"] == [s.notebook for s in next_steps(frame, group, cluster="eu")]


def test_members_are_rows() -> None:
    """Each member has what it reads, what it holds, and why its subscription is not known."""
    group = live("payments", member("orders", owns=(P1, P0)), holder(), member(unreadable="odd"))
    rows = members_frame(group)[
        ["member", "partitions", "assigned_partitions", "paused_partitions", "subscribed"]
    ]

    assert [
        ["app", 2, "orders:0-1", "", "orders"],
        ["app", 0, "", "", "(odd)"],
        [HOLDER_CLIENT_ID, 1, "orders:0", "orders:0", "orders"],
    ] == rows.to_numpy().tolist()
