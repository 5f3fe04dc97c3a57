"""A restore puts back exactly what was saved, and says what it cannot."""

from bisect import bisect_left
from dataclasses import replace

import pytest
from facts import NOON, changes, idle, live, member, rules, snapshot
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import UsageError
from toolkit.model import Commit, EpochEnd, Group, LogOffsets, Snapshot, TopicPartition
from toolkit.plan import Change, Position, Severity
from toolkit.plan.saved_offsets import SavedOffsets
from toolkit.planning.changes.clamp import clamp_to_log, leader_epoch_at
from toolkit.planning.changes.restore import plan_restore

IDLE = idle()
ORDERS, AUDIT = TopicPartition("orders", 0), TopicPartition("audit", 1)


def backup(*commits: Commit) -> SavedOffsets:
    return SavedOffsets(commits, cluster="eu", cluster_id="id", taken_at=NOON)


SAVED = backup(Commit("g", *ORDERS, 10, 3, "mine"), Commit("g", *AUDIT, 20))
TWO_GROUPS = backup(*SAVED.commits, Commit("pay-1", *ORDERS, 10))


def facts(*groups: Group, commits: tuple[Commit, ...] = ()) -> Snapshot:
    """Return a cluster with records 5 to 40 in both partitions."""
    return snapshot(*groups, commits=commits, logs=dict.fromkeys((ORDERS, AUDIT), (5, 40)))


def test_a_name_in_quotes_is_found() -> None:
    """The empty name is written in quotes here as well."""
    saved = replace(SAVED, commits=(Commit("", *ORDERS, 10), Commit("g", *ORDERS, 10)))
    plan = plan_restore(facts(), saved, groups=['""'])

    assert ("",) == plan.group_ids
    assert [("new-group", "note")] == rules(plan)


def test_a_restore_is_exact() -> None:
    """Offset, leader epoch and metadata go back; what is there already is no change."""
    now = (Commit("g", *ORDERS, 30, 4, "other"), Commit("g", *AUDIT, 20))
    plan = plan_restore(facts(IDLE, commits=now), SAVED)

    change = Change(ORDERS, Position(30, 4, "other"), Position(10, 3, "mine"), "as saved")
    assert [change] == changes(plan)
    assert ((), "restore all of 2026-03-01 12:00 UTC") == (plan.findings, plan.request)


def test_a_missing_group_is_created() -> None:
    """It is restored with its commits, or under another name, and the plan says so."""
    plan, renamed = plan_restore(facts(), SAVED), plan_restore(facts(IDLE), SAVED, into="h")

    assert [("g", True)] == [(step.group_id, step.creates) for step in plan.steps]
    assert ([("new-group", "note")], {"new-group"}) == (rules(plan), plan.allows)
    request = "restore all of 2026-03-01 12:00 UTC into h"
    assert (("h",), request) == (renamed.group_ids, renamed.request)


def test_partitions_without_a_saved_offset_are_named() -> None:
    """Consumers of a restored group start there by auto.offset.reset; a committed one stays."""
    places = [TopicPartition("orders", number) for number in range(4)]
    now = snapshot(IDLE, commits=(Commit("g", *places[1], 9),), logs=dict.fromkeys(places, (5, 40)))
    saved = replace(SAVED, commits=(Commit("g", *ORDERS, 10),))
    notes = {finding.rule: finding.why for finding in plan_restore(now, saved).findings}

    says = "no committed offset for orders:2-3: none is committed, and a consumer of g starts"
    assert notes["no-commit"].startswith(says)
    assert "no-commit" not in dict(rules(plan_restore(now, saved, topics=["orders"])))


def test_a_csv_is_restored_as_far_as_it_goes() -> None:
    """It has offsets alone: metadata stays where the offset does, and the cluster is not known."""
    csv = SavedOffsets((Commit("g", *ORDERS, 10), Commit("g", *AUDIT, 20)))
    now = (Commit("g", *ORDERS, 30, 4, "other"), Commit("g", *AUDIT, 20, 4, "kept"))
    plan, made = plan_restore(facts(IDLE, commits=now), csv), plan_restore(facts(), csv)

    why = "as saved; commit metadata cleared"
    assert [Change(ORDERS, Position(30, 4, "other"), Position(10), why)] == changes(plan)
    assert [("cluster-unknown", "note")] == rules(plan)
    assert "restore all of a CSV file" == plan.request
    assert [None, None] == [change.before for change in changes(made)]
    nameless = replace(csv, names_groups=False)
    assert ("h",) == plan_restore(facts(), nameless, into="h").group_ids


@pytest.mark.parametrize(
    ("saved", "into", "says"),
    [
        (TWO_GROUPS, "x", "offsets of 2 groups cannot be restored into one group, 'x'"),
        (replace(SAVED, names_groups=False), None, "does not say which group each row is of"),
    ],
)
def test_one_group_for_each_offset(saved: SavedOffsets, into: str | None, says: str) -> None:
    """Offsets of several groups would overwrite one another, and no group is guessed."""
    with pytest.raises(UsageError, match=says):
        plan_restore(facts(IDLE), saved, into=into)


def test_groups_and_topics_of_a_backup_are_chosen() -> None:
    """Names, patterns and topic scopes narrow what is restored; what has no row blocks."""
    plan = plan_restore(facts(), TWO_GROUPS, groups=["pay-*", "x"], topics=["orders:0"])

    assert [("pay-1", ORDERS)] == [(step.group_id, c.partition) for step, c in plan.changes]
    assert [("no-row", "block"), ("new-group", "note")] == rules(plan)
    assert "restore pay-* x of 2026-03-01 12:00 UTC, orders:0" == plan.request


def test_partitions_outside_the_topics_asked_for_stay() -> None:
    """A topic that the backup does not have is not passed over in silence."""
    plan = plan_restore(facts(IDLE), SAVED, topics=["audit", "other"])

    assert [AUDIT] == [change.partition for change in changes(plan)]
    assert ("no-row", "block") in rules(plan)
    more = (Commit("g", *ORDERS, 7),)
    assert () == plan_restore(facts(IDLE, commits=more), SAVED, topics=["other"]).steps


def test_a_recreated_topic_blocks() -> None:
    """Its records are others; an override lets the planned changes through."""
    saved = replace(SAVED, topic_ids={"orders": "id1", "audit": "id2"})
    now = replace(facts(IDLE), topic_ids={"orders": "id1", "audit": "id3"})
    plan = plan_restore(now, saved, into="h")

    found = [(f.rule, f.group_id, f.topic) for f in plan.findings if f.severity is Severity.BLOCK]
    assert [("topic-recreated", "h", "audit")] == found
    assert 2 == len(changes(plan))
    assert {"orders": "id1", "audit": "id3"} == plan.topic_ids


BEYOND = facts(IDLE, commits=(Commit("g", "payments", 0, 7),))
FEWER = backup(Commit("g", "orders", 7, 1))
PAST_END = backup(Commit("g", *ORDERS, 41))


ON_ID2 = replace(facts(IDLE), topic_ids={"orders": "id2"})
ELSEWHERE = replace(SAVED, cluster="us", cluster_id="other", topic_ids={"orders": "id1"})


@pytest.mark.parametrize(
    ("now", "saved", "found", "planned"),
    [
        (BEYOND, SAVED, ("not-in-backup", "note"), [AUDIT, ORDERS]),
        (facts(live("g", member("orders"))), SAVED, ("group-live", "block"), [AUDIT, ORDERS]),
        (facts(IDLE), FEWER, ("missing-partition", "block"), []),
        (facts(IDLE), PAST_END, ("clamped", "note"), [ORDERS]),
        # Equal names on another cluster are other records, which is said once.
        (ON_ID2, ELSEWHERE, ("other-cluster", "block"), [AUDIT, ORDERS]),
    ],
    ids=[
        "beyond the backup",
        "live: members write over it",
        "fewer partitions",
        "past",
        "elsewhere",
    ],
)
def test_a_restore_removes_nothing(
    now: Snapshot, saved: SavedOffsets, found: tuple[str, str], planned: list[TopicPartition]
) -> None:
    """Offsets that cannot be restored are named."""
    plan = plan_restore(now, saved)

    assert ([found], planned) == (rules(plan), [change.partition for change in changes(plan)])


LOG = LogOffsets(5, 40, 40, (EpochEnd(0, 20), EpochEnd(2, 40)))
CLEARED = "commit metadata cleared"
AT_START = "clamped to the log start offset 5: 4 is before it"
AT_END = "clamped to the log end offset 40: 41 is past it"
RECREATED = "the log has no leader epoch 9: the topic was re-created"


@pytest.mark.parametrize(
    ("saved", "landed", "why"),
    [
        (Position(5, 0, "m"), Position(5, 0, "m"), ""),
        (Position(40, 2, "m"), Position(40, 2, "m"), ""),
        (Position(4, 0, "m"), Position(5, 0), f"{AT_START}; {CLEARED}"),
        (Position(4, 0), Position(5, 0), AT_START),
        (Position(41, 1, "m"), Position(40, 2), f"{AT_END}; {CLEARED}"),
        (Position(30, 9, "m"), Position(30, 2), f"{RECREATED}; {CLEARED}"),
    ],
)
def test_where_a_saved_offset_lands(saved: Position, landed: Position, why: str) -> None:
    """What is in the log stays as it is; anything else goes to the nearest end, and says so."""
    assert (landed, why) == clamp_to_log(saved, LOG)


@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 10**6))
def test_a_saved_offset_lands_in_the_log(start: int, length: int, offset: int) -> None:
    """Whatever was saved, what is committed exists, and is what was saved where that exists."""
    landed, why = clamp_to_log(Position(offset), LogOffsets(start, start + length))

    assert start <= landed.offset <= start + length
    assert (landed.offset == offset) == (why == "")


# Epoch 0 wrote records 0 to 9, of which 0 to 3 are deleted; 2 wrote 10 to 19; 3 and 5 nothing yet.
EPOCHS = (EpochEnd(0, 10), EpochEnd(2, 20), EpochEnd(3, 20), EpochEnd(5, 20))
LOG_OF_EPOCHS = LogOffsets(4, 20, 20, EPOCHS)


def test_epoch_of_the_last_record_read() -> None:
    """An offset gets the epoch of the record before it, at the log start of the record there."""
    epochs = {offset: leader_epoch_at(LOG_OF_EPOCHS, offset) for offset in range(3, 22)}

    # Nothing before 4, the log start, nor past 20, the end; at 10 nothing of epoch 2 was read.
    read = {**dict.fromkeys(range(4, 11), 0), **dict.fromkeys(range(11, 21), 2)}
    assert {3: None, **read, 21: None} == epochs


@pytest.mark.parametrize(
    "log",
    [
        LogOffsets(None, 20, 20, EPOCHS),
        LogOffsets(4, None, 20, EPOCHS),
        LogOffsets(4, 20, 20),
        LogOffsets(12, 20, 20, (EpochEnd(2, 12),)),
        LogOffsets(12, 12, 12, EPOCHS),
    ],
    ids=["no start", "no end", "no epochs", "epochs end too early", "empty log"],
)
def test_unknown(log: LogOffsets) -> None:
    """Where a part of the facts is missing the epoch is unknown."""
    assert leader_epoch_at(log, 12) is None


def test_beginning_of_the_oldest_known_epoch_is_unknown() -> None:
    """Records of the oldest epoch that was read may be of an older one, unless it is epoch 0."""
    log = LogOffsets(4, 20, 20, EPOCHS[1:])

    assert [leader_epoch_at(log, offset) for offset in (4, 11, 20)] == [None, None, None]


@given(
    ends=st.lists(st.integers(0, 60), min_size=1, max_size=8).map(sorted),
    oldest=st.integers(0, 3),
    start=st.integers(0, 60),
    offset=st.integers(-5, 70),
)
def test_epoch_is_true_or_unknown(ends: list[int], oldest: int, start: int, offset: int) -> None:
    """Whatever the log is like, a record of the epoch lies before the offset, or at the start."""
    epochs = tuple(EpochEnd(oldest + index, end) for index, end in enumerate(ends))
    log = LogOffsets(start, max(ends[-1], start), None, epochs)
    epoch = leader_epoch_at(log, offset)
    if epoch is None:
        return
    index = epoch - oldest
    begin = ends[index - 1] if index else 0
    record = offset if offset == start else offset - 1

    assert start <= offset <= ends[-1]
    assert begin <= record < ends[index]
    assert bisect_left(ends, record + 1) == index
