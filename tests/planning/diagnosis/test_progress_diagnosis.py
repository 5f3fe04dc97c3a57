from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pandas as pd
import pytest
from facts import NOON, live, member
from hypothesis import given
from hypothesis import strategies as st
from samples import HELD, HOLDER, P0, P1, UNDESCRIBED, UNSUBSCRIBED, sample

from toolkit.model import (
    HOLDER_CLIENT_ID,
    GroupState,
    GroupType,
    LogOffsets,
    Problem,
    Snapshot,
    TopicPartition,
    Unread,
)
from toolkit.model.records import FirstRecord
from toolkit.planning.diagnosis.next_steps import next_steps
from toolkit.planning.diagnosis.progress_diagnosis import diagnose_partitions
from toolkit.planning.diagnosis.progress_rules import Verdict
from toolkit.planning.frames.snapshot_frames import members_frame

STUCK_AFTER_S = 60.0
READER = live("payments", member("orders", owns=(P0, P1)))
LONG_AGO = NOON - timedelta(minutes=30)
LONG_WAITS = dict.fromkeys((P0, P1), FirstRecord(found=True, at=LONG_AGO))


def look(
    committed: dict[TopicPartition, int],
    *,
    logs: dict[Any, Any] | None = None,
    committed_at: datetime | None = LONG_AGO,
    **fields: Any,
) -> Snapshot:
    """Return one look at the group; every log goes from 0 to 100 unless it is said."""
    ends = logs or dict.fromkeys(committed, (0, 100))
    return sample(committed, logs=ends, committed_at=committed_at, **{"group": READER, **fields})


def judge(first: Snapshot, second: Snapshot, **facts: Any) -> pd.DataFrame:
    """Return what two looks say, with records that wait for half an hour where nothing is said."""
    known = {"first_unread": LONG_WAITS, "stuck_after_s": STUCK_AFTER_S, **facts}
    return diagnose_partitions(first, second, group_id="payments", **known)


def verdict(first: Snapshot, second: Snapshot, **facts: Any) -> tuple[str, str]:
    row = judge(first, second, **facts).set_index(["topic", "partition"]).loc[tuple(P0)]
    return row["verdict"], row["why"]


LATER = NOON + timedelta(seconds=10)
UNREAD = Problem(Unread.COMMITS, "no answer within 3 s", "payments")


def test_a_failed_reading_is_no_evidence() -> None:
    """What one sample lacks is reported, and is no missing offset, no progress and no halt."""
    first, second = look({P0: 10}), replace(look({P0: 10}), taken_at=LATER)
    held = Problem(Unread.HELD_PARTITIONS, "it rebalances", "payments")
    nothing = replace(second, commits=())

    lacks_now = verdict(first, replace(nothing, problems=(UNREAD,)))
    lacked_before = verdict(replace(first, commits=(), problems=(UNREAD,)), second)
    perhaps_held = verdict(first, replace(second, problems=(held,)))

    assert ("unknown", "committed offset could not be read: no answer within 3 s") == lacks_now
    assert "unknown" == lacked_before[0]
    assert "in the first sample: committed offsets: no answer within 3 s" in lacked_before[1]
    assert ("unknown", "unknown whether it is paused: it rebalances") == perhaps_held
    both = nothing.with_problems_of(replace(first, problems=(UNREAD, held)))
    assert (UNREAD, held) == both.problems


def test_a_partition_without_progress_is_stuck() -> None:
    """Its commit stays while records wait; the others are not stuck."""
    frame = judge(look({P0: 50, P1: 50}), look({P0: 50, P1: 90}, after_s=10))

    found = frame[["verdict", "partition", "committed_delta"]].to_numpy().tolist()
    assert [["stuck", 0, 0], ["progressing", 1, 40]] == found
    why = frame["why"][0]
    assert "committed offset 50 unchanged for at least 30 min 10 s" in why
    assert "lag 50, the oldest unread record was written 30 min 10 s ago" in why
    assert "other partitions of this owner made progress" in why


def test_only_markers_follow() -> None:
    """A group that has read all committed records is caught up, though the log has an end later."""
    nothing = {P0: FirstRecord(found=False)}
    found = verdict(look({P0: 99}), look({P0: 99}, after_s=10), first_unread=nothing)

    assert ("caught up", "caught up: no committed record follows") == found


RECENT = NOON - timedelta(seconds=30)
YOUNG = {P0: FirstRecord(found=True, at=NOON - timedelta(seconds=10))}
FRESH, UNDATED = {"committed_at": RECENT}, {"committed_at": None}
NOT_LONG = "not for longer than 1 min"


@pytest.mark.parametrize(
    ("before", "after", "first_unread", "says"),
    [
        pytest.param({}, {}, YOUNG, NOT_LONG, id="young record"),
        pytest.param({}, {}, {}, "age of the oldest unread record unknown", id="undated record"),
        pytest.param(FRESH, FRESH, LONG_WAITS, NOT_LONG, id="fresh commit"),
        pytest.param(UNDATED, UNDATED, LONG_WAITS, "commit time unknown", id="undated commit"),
        # Old records that were written only just now, as in a backfill.
        pytest.param(
            {"logs": {P0: (0, 50)}}, {}, LONG_WAITS, "no lag in the first sample", id="backfill"
        ),
    ],
)
def test_without_all_of_the_evidence_it_is_stuck_perhaps(
    before: dict[str, Any], after: dict[str, Any], first_unread: dict[Any, FirstRecord], says: str
) -> None:
    """A record that may be young, or a commit that may be, is no proof."""
    first, second = look({P0: 50}, **before), look({P0: 50}, after_s=10, **after)
    found, why = verdict(first, second, first_unread=first_unread)

    assert ("possibly stuck", True) == (found, says in why), why


def test_distant_samples_need_no_commit_times() -> None:
    """Without READ on the offsets topic, two samples stuck_after apart suffice."""
    looks = [look({P0: 50}, after_s=after_s, committed_at=None) for after_s in (0, 120)]

    for first_unread in (LONG_WAITS, {}):
        assert "stuck" == verdict(*looks, first_unread=first_unread)[0]


PENDING = replace(look({P0: 50}), logs={P0: LogOffsets(0, 100, last_stable=50)})
NO_MEMBERS = live("payments", state=GroupState.EMPTY)
UNREADABLE = live("payments", member(unreadable="odd bytes"))


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        (look({P0: 100}), Verdict.CAUGHT_UP),
        (look({P0: 40}), Verdict.PROGRESSING),
        (look({P0: 50}, logs={P0: (0, 40)}), Verdict.OUT_OF_RANGE),
        (look({P0: 50}, logs={P0: (60, 100)}), Verdict.OUT_OF_RANGE),
        (look({P0: 50}, logs={P0: (None, None)}), Verdict.UNKNOWN),
        (look({P0: 50}, group=None), Verdict.UNKNOWN),
        (look({P0: 50}, group=UNDESCRIBED), Verdict.UNKNOWN),
        (look({P0: 50}, group=NO_MEMBERS), Verdict.NO_MEMBERS),
        (look({P0: 50}, group=UNSUBSCRIBED), Verdict.UNSUBSCRIBED),
        (look({P0: 50}, group=UNREADABLE), Verdict.STUCK),
        (look({P0: 50}, group=HELD), Verdict.PAUSED),
        (PENDING, Verdict.TRANSACTION),
    ],
)
def test_other_reasons_for_no_progress_have_their_own_word(
    second: Snapshot, expected: Verdict
) -> None:
    """A partition without progress for a known reason is not stuck."""
    first = look({P0: 100 if expected is Verdict.CAUGHT_UP else 50})

    assert str(expected) == verdict(first, replace(second, taken_at=LATER))[0]


def test_an_owned_partition_without_a_commit_is_unknown() -> None:
    """It has a row without a number."""
    (found, why) = verdict(look({}), look({}, after_s=10, logs={P0: (0, 100)}))

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
    before, after = committed
    at = NOON + timedelta(seconds=apart_s)
    committed_at, waits_since = (
        None if ago_s is None else at - timedelta(seconds=ago_s) for ago_s in (age_s, waited_s)
    )
    waits = {} if waits_since is None else {P0: FirstRecord(found=True, at=waits_since)}
    first, second = (look({P0: o}, logs={P0: log}, committed_at=committed_at) for o in committed)
    found, _ = verdict(first, replace(second, taken_at=at), first_unread=waits)

    if found == Verdict.STUCK:
        assert before == after
        assert log[0] <= after < log[1]
        assert max(age_s or 0, apart_s) > STUCK_AFTER_S
        assert max(waited_s or 0, apart_s) > STUCK_AFTER_S
    if before != after and log[0] <= after <= log[1]:
        assert found == Verdict.PROGRESSING


@pytest.mark.parametrize(("record", "after"), [(None, "51"), (50, "51"), (52, "53")])
def test_stuck_leads_to_a_pause_a_move_and_a_resume(record: int | None, after: str) -> None:
    """The steps for a stuck partition name it, and the offset behind the record it is stuck at."""
    known = {} if record is None else {P0: FirstRecord(found=True, at=LONG_AGO, offset=record)}
    looks = look({P0: 50, P1: 50}), look({P0: 50, P1: 90}, after_s=10)
    frame = judge(*looks, first_unread={**LONG_WAITS, **known})
    pause, move, resume = next_steps(frame, READER, cluster="eu")

    assert "40_pause_partitions" == pause.notebook
    assert {"groups": ["payments"], "topics": ["orders:0"]} == pause.parameters
    assert "50_reset_offsets" == move.notebook
    to = {"mode": "to-offset", "value": after, "topics": ["orders:0"]}
    assert to.items() <= move.parameters.items()
    assert "resume" == resume.parameters["action"]


def test_an_offset_past_the_log_end_is_not_sent_to_the_log_end() -> None:
    """The group may have read nothing of a re-created topic; elsewhere the log start is meant."""
    logs = {P0: (0, 20), P1: (60, 100)}
    frame = judge(look({P0: 50, P1: 50}), look({P0: 50, P1: 50}, after_s=10, logs=logs))
    steps = [step.parameters for step in next_steps(frame, READER, cluster="eu")]

    assert [("to-earliest", ["orders:0"]), ("to-current", ["orders:1"])] == [
        (parameters["mode"], parameters["topics"]) for parameters in steps
    ]


@pytest.mark.parametrize(
    ("second", "notebooks"),
    [
        (look({P0: 50}, group=UNSUBSCRIBED), ["60_delete_offsets"]),
        (look({P0: 50}, group=NO_MEMBERS), ["30_expiry_forecast", "61_delete_groups"]),
        (look({P0: 50}, logs={P0: (60, 100)}), ["50_reset_offsets"]),
        (look({P0: 50}, group=HELD), ["40_pause_partitions"]),
        (PENDING, [""]),
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
    frame = judge(look({}, group=group), look({}, group=group, after_s=10))

    assert ([], True) == (list(frame.index), {"verdict", "why", "lag"} <= set(frame.columns))
    assert ["10_fleet_lag"] == [s.notebook for s in next_steps(frame, group, cluster="eu")]


def test_members_are_rows() -> None:
    """Each member has what it reads, what it holds, and why its subscription is not known."""
    group = live("payments", member("orders", owns=(P1, P0)), HOLDER, member(unreadable="odd"))
    rows = members_frame(group)[
        ["member", "partitions", "assigned_partitions", "paused_partitions", "subscribed"]
    ]

    assert [
        ["app", 2, "orders:0-1", "", "orders"],
        ["app", 0, "", "", "(odd)"],
        [HOLDER_CLIENT_ID, 1, "orders:0", "orders:0", "orders"],
    ] == rows.to_numpy().tolist()
