"""What a reset plans, what it refuses, and what it says about both."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from facts import NOON, changes, idle, live, member, rules, snapshot
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import UsageError
from toolkit.model import (
    HOLDER_CLIENT_ID,
    Commit,
    EpochEnd,
    Group,
    GroupState,
    GroupType,
    LogOffsets,
    Problem,
    Snapshot,
    TimedOffset,
    TopicPartition,
)
from toolkit.plan import NEW_TOPICS, Action, Change, Finding, Intent, Plan, Position, Severity, Step
from toolkit.planning.changes.offsets_target import from_offsets
from toolkit.planning.changes.reset import plan_reset
from toolkit.planning.changes.targets import (
    ClearMetadata,
    PastEnd,
    ShiftBy,
    Target,
    ToCurrent,
    ToDatetime,
    ToEarliest,
    ToLatest,
    ToOffset,
)

ORDERS = TopicPartition("orders", 0)


def facts(
    *commits: Commit,
    log: LogOffsets = LogOffsets(0, 100, 100),  # noqa: B008 - it is frozen
    groups: tuple[Group, ...] = (idle(),),
    problems: tuple[Problem, ...] = (),
) -> Snapshot:
    """Return a snapshot in which every partition that is committed, and orders:0, has one log."""
    partitions = {ORDERS, *(TopicPartition(c.topic, c.partition) for c in commits)}
    made = snapshot(*groups, commits=commits)
    return replace(made, logs=dict.fromkeys(sorted(partitions), log), problems=problems)


AT_50 = Commit("g", "orders", 0, 50, 3, "mine")


def only(plan: Plan) -> Change:
    """Return a plan's only change, in a plan without findings."""
    assert [] == rules(plan)
    (change,) = changes(plan)
    return change


def test_a_plan_is_one_step_a_group() -> None:
    """A plan says for whom, what was asked for, and on which facts it rests."""
    commits = (
        replace(AT_50, committed_at=NOON - timedelta(hours=1)),
        Commit("g", "audit", 1, 7, committed_at=NOON - timedelta(hours=2)),
    )
    plan = plan_reset(facts(*commits), ToEarliest(), groups=["g"], topics=["orders", "audit:1"])
    step = Step(
        "g",
        Action.COMMIT,
        (
            Change(TopicPartition("audit", 1), Position(7), Position(0), "the log start"),
            Change(
                ORDERS,
                Position(50, 3, "mine"),
                Position(0),
                "the log start; commit metadata cleared",
            ),
        ),
        GroupType.CLASSIC,
        GroupState.EMPTY,
        last_commit_at=NOON - timedelta(hours=1),
    )

    assert (
        Plan(Intent.RESET, "reset g, orders, audit:1 to-earliest", "eu", "id", NOON, (step,))
        == plan
    )


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (ToEarliest(), "to-earliest"),
        (ToLatest(), "to-latest"),
        (ToCurrent(), "to-current"),
        (ClearMetadata(), "clear-metadata"),
        (ToOffset(7), "to-offset 7"),
        (ShiftBy(-7), "shift-by -7"),
        (ToDatetime(NOON), "to-datetime 2026-03-01 12:00:00 UTC (past the end: keep)"),
        (ToDatetime(NOON, PastEnd.FAIL, "by-duration P1D"), "by-duration P1D (past the end: fail)"),
        (from_offsets({}, source="from-file a.csv"), "from-file a.csv"),
    ],
)
def test_the_request_in_words(target: Target, words: str) -> None:
    """A plan repeats what was asked for; more than five names become a number."""
    assert f"reset g h {words}" == plan_reset(facts(), target, groups=["g", "h"]).request
    assert f"reset 6 groups {words}" == plan_reset(facts(), target, groups=list("abcdef")).request


def test_an_offset_that_stays_is_no_change() -> None:
    """What is where it should be keeps epoch and metadata, and its group has no step."""
    plan = plan_reset(facts(AT_50), ToOffset(50), groups=["g"])

    assert ((), ()) == (plan.steps, plan.findings)


def test_groups_are_named() -> None:
    """Each group is planned once, in order of names; no name never means all groups."""
    commits = [replace(AT_50, group_id=name) for name in ("b", "a1", "a2")]
    groups = tuple(idle(name) for name in ("b", "a2", "a1"))
    made = facts(*commits, groups=groups)

    assert ("a1", "a2", "b") == plan_reset(made, ToLatest(), groups=["b", "a*", "a1"]).group_ids
    with pytest.raises(UsageError, match="no group given"):
        plan_reset(facts(), ToLatest(), groups=[])


@pytest.mark.parametrize("target", [ToOffset(50), ToCurrent(), ShiftBy(0)])
def test_metadata_of_a_deleted_topic_does_not_stay(target: Target) -> None:
    """The log has no such leader epoch: the same number is an offset of another log now."""
    commit = replace(AT_50, leader_epoch=7)
    plan = plan_reset(facts(commit, log=WITH_EPOCHS), target, groups=["g"])

    (change,) = changes(plan)
    assert (Position(50, 7, "mine"), Position(50, 4)) == (change.before, change.after)
    assert change.why.endswith("the topic was re-created; commit metadata cleared")


WHOLE = LogOffsets(0, 100, 100)
WITH_EPOCHS = LogOffsets(0, 100, 100, (EpochEnd(0, 40), EpochEnd(4, 100)))


def row(written: int | Position, *, group: str | None = "g") -> Target:
    """Return the target of a file with one row, for orders:0."""
    return from_offsets({(group, ORDERS): written}, source="x")


@pytest.mark.parametrize(
    ("target", "log", "after"),
    [
        (ToOffset(30), WITH_EPOCHS, Position(30, 0)),
        (ToOffset(60), WITH_EPOCHS, Position(60, 4)),
        (ToLatest(), LogOffsets(0, 100), Position(100)),
        (row(10, group=None), WHOLE, Position(10)),
        (row(Position(20, 2, "saved")), WHOLE, Position(20, 2, "saved")),
        (row(Position(50, 3, "saved")), WHOLE, Position(50, 3, "saved")),
        (row(Position(20, 7, "saved")), WITH_EPOCHS, Position(20, 0)),
    ],
    ids=[
        "epoch of the record before it",
        "epoch of a later record",
        "latest without a last stable offset",
        "a bare offset has no metadata",
        "a position brings epoch and metadata",
        "only the metadata differs",
        "an epoch that the log cannot have",
    ],
)
def test_a_change_has_epoch_and_metadata(target: Target, log: LogOffsets, after: Position) -> None:
    """A moved offset gets the leader epoch of its new place, and only the metadata of the file."""
    assert after == only(plan_reset(facts(AT_50, log=log), target, groups=["g"])).after


def test_metadata_is_cleared_where_nothing_moves() -> None:
    """Offset and leader epoch stay; what has no metadata is no change."""
    bare = Commit("g", "audit", 0, 7)
    plan = plan_reset(facts(AT_50, bare), ClearMetadata(), groups=["g"])
    why = "the same offset, commit metadata cleared"

    assert [(Position(50, 3), why)] == [(c.after, c.why) for c in changes(plan)]


@pytest.mark.parametrize(
    ("target", "start", "after", "change_why", "finding"),
    [
        (
            ToOffset(5),
            40,
            Position(40),
            "offset 5; clamped to the log start offset 40: 5 is before it; commit metadata cleared",
            (
                "before-log-start: offset 5 is before the log start offset 40: those records are "
                "deleted"
            ),
        ),
        (
            ShiftBy(-70),
            0,
            Position(0),
            "70 back; clamped to the log start offset 0: -20 is before it; commit metadata cleared",
            "clamped: requested offset -20, effective offset 0: the log start offset",
        ),
        (
            row(Position(200, 7, "saved")),
            0,
            Position(100),
            (
                "as given in the input; clamped to the log end offset 100: 200 is past it; "
                "commit metadata cleared"
            ),
            "clamped: requested offset 200, effective offset 100: the log end offset",
        ),
    ],
    ids=["deleted records", "no record is before offset 0", "a row past the end"],
)
def test_a_target_outside_the_log_is_clamped(
    target: Target, start: int, after: Position, change_why: str, finding: str
) -> None:
    """The offset goes to the nearest end of the log; the change and a note tell why."""
    plan = plan_reset(facts(AT_50, log=LogOffsets(start, 100, 100)), target, groups=["g"])

    assert [(after, change_why)] == [(change.after, change.why) for change in changes(plan)]
    rule, why = finding.split(": ", 1)
    assert (Finding(rule, Severity.NOTE, why, "g", *ORDERS),) == plan.findings


def test_latest_stops_at_an_open_transaction() -> None:
    """A read_committed reader placed behind the last stable offset would miss records."""
    change = only(plan_reset(facts(AT_50, log=LogOffsets(0, 100, 90)), ToLatest(), groups=["g"]))

    assert Position(90) == change.after
    assert "a transaction is open; log end offset is 100" in change.why


@pytest.mark.parametrize("target", [ShiftBy(5), ToCurrent()])
def test_a_partition_without_a_commit_is_a_note(target: Target) -> None:
    """It is no failure of its group, whose other partitions are planned (R13, R23b)."""
    made = facts(Commit("g", "orders", 1, 200))
    plan = plan_reset(made, target, groups=["g"], topics=["orders:0,1"])

    assert ("no-commit", "note") == rules(plan)[0]
    assert [1] == [change.partition.partition for change in changes(plan)]


@pytest.mark.parametrize(
    ("about", "rule", "planned"),
    [
        (facts(replace(AT_50, pending=True)), "pending-transaction", 1),
        (facts(AT_50, groups=(idle(kind=GroupType.SHARE),)), "share-group", 0),
        (facts(AT_50, groups=(replace(idle(), state=GroupState.DEAD),)), "no-such-group", 0),
        (facts(AT_50, groups=(idle(kind=GroupType.UNKNOWN),)), "unreadable", 1),
        (facts(AT_50, problems=(Problem("committed offsets", "no answer", "g"),)), "unreadable", 0),
        (facts(AT_50, problems=(Problem("members", "no answer", "g"),)), "unreadable", 1),
        (replace(facts(AT_50), logs={}), "unreadable", 0),
    ],
    ids=[
        *("open transaction", "share group", "dead group", "unknown group type"),
        *("commits unread: nothing could be undone", "members unread", "log unread"),
    ],
)
def test_what_blocks_a_reset(about: Snapshot, rule: str, planned: int) -> None:
    """One finding blocks, and the change is planned all the same where its start is known."""
    plan = plan_reset(about, ToLatest(), groups=["g"])

    assert ([(rule, "block")], planned) == (rules(plan), len(changes(plan)))


def test_a_live_group_is_planned_and_blocked() -> None:
    """People see what would be done, and who keeps it from being done (R42)."""
    plan = plan_reset(facts(AT_50, groups=(live("g", member("orders")),)), ToLatest(), groups=["g"])

    assert 1 == len(changes(plan))
    assert [("group-live", "block")] == rules(plan)
    assert plan.findings[0].why == (
        "group is Stable; members: app @ /10.0.0.1. Pause these partitions, or use 'offsetbook "
        "move' (live in a notebook)"
    )


def test_a_reset_of_paused_partitions_moves_them_while_the_group_lives() -> None:
    """Nobody reads them, so nobody writes over the change; one that is read keeps it back."""
    free = TopicPartition("orders", 1)
    holds = replace(member(), client_id=HOLDER_CLIENT_ID, holds=(ORDERS,))
    held = live("g", member("orders", owns=(free,)), holds)
    about = facts(AT_50, replace(AT_50, partition=1), groups=(held,))

    moved = plan_reset(about, ToEarliest(), groups=["g"], topics=["orders:0"])
    assert ([], [Action.MOVE]) == (rules(moved), [step.action for step in moved.steps])
    kept = plan_reset(about, ToEarliest(), groups=["g"])
    assert [("group-live", "block")] == rules(kept)
    assert [Action.COMMIT] == [step.action for step in kept.steps]
    assert "; orders:1 is not paused. Pause" in kept.findings[0].why


@pytest.mark.parametrize("name", ["nope", "nope*"])
def test_a_group_that_does_not_exist(name: str) -> None:
    """A misspelt name is a finding under that name, and the other groups are planned (R41)."""
    plan = plan_reset(facts(AT_50), ToLatest(), groups=[name, "g"])

    assert [("no-such-group", name)] == [(f.rule, f.group_id) for f in plan.findings]
    assert ("g",) == plan.group_ids


def test_an_incomplete_list_of_groups_is_not_taken_for_whole() -> None:
    """A name that is not in it may exist, and a pattern may match more."""
    problem = Problem("groups coordinated by broker 3", "it did not answer", hides_groups=True)
    made = facts(AT_50, problems=(problem,))

    assert [("unreadable", "block")] == rules(plan_reset(made, ToLatest(), groups=["nope"]))
    assert [("unreadable", "note")] == rules(plan_reset(made, ToLatest(), groups=["g*"]))
    assert [] == rules(plan_reset(made, ToLatest(), groups=["g"]))


def test_new_topics_are_allowed_by_the_plan() -> None:
    """A plan with new topics says so, for whoever checks it later."""
    made = facts(Commit("g", "audit", 0, 5))
    asked = [
        plan_reset(made, ToEarliest(), groups=["g"], topics=["orders"], new_topics=n)
        for n in (False, True)
    ]

    assert [["topic-never-used"], []] == [[f.rule for f in plan.findings] for plan in asked]
    assert [frozenset(), frozenset({NEW_TOPICS})] == [plan.allows for plan in asked]
    assert [Change(ORDERS, None, Position(0), "the log start")] == changes(asked[1])


AN_HOUR_AGO = NOON - timedelta(hours=1)


def at_time(found: TimedOffset | None, **changes: object) -> Snapshot:
    """Return the facts with where orders:0 stood an hour ago."""
    made = replace(facts(AT_50), at=AN_HOUR_AGO, at_time={ORDERS: found})
    return replace(made, **changes)  # type: ignore[arg-type] # a test names the fields it means


def test_to_the_first_record_at_or_after_a_time() -> None:
    """The change says which time was asked for and of what time the record is."""
    found = TimedOffset(30, AN_HOUR_AGO + timedelta(milliseconds=1500))
    change = only(plan_reset(at_time(found), ToDatetime(AN_HOUR_AGO), groups=["g"]))

    assert Position(30) == change.after
    why = "first record at or after 2026-03-01 11:00:00 UTC has timestamp"
    assert f"{why} 2026-03-01 11:00:01.500 UTC; commit metadata cleared" == change.why


def test_a_time_from_before_the_log_is_noted() -> None:
    """Where the log begins later than the time asked for, older records may be gone (R19c)."""
    logs = {ORDERS: LogOffsets(1, 100, 100)}
    later = at_time(TimedOffset(1, NOON), logs=logs)
    exact = at_time(TimedOffset(1, AN_HOUR_AGO), logs=logs)
    whole = at_time(TimedOffset(0, NOON))
    plans = [plan_reset(f, ToDatetime(AN_HOUR_AGO), groups=["g"]) for f in (later, exact, whole)]

    assert [[("before-log-start", "note")], [], []] == [rules(plan) for plan in plans]
    assert [1, 1, 0] == [c.after.offset for plan in plans for c in changes(plan) if c.after]


@pytest.mark.parametrize(
    ("past_end", "severity", "goes_to"),
    [(PastEnd.KEEP, "note", []), (PastEnd.LATEST, "note", [90]), (PastEnd.FAIL, "block", [])],
)
def test_a_time_past_the_last_record(past_end: PastEnd, severity: str, goes_to: list[int]) -> None:
    """It is never silently the log end: the operator chooses, and the plan says so (R18)."""
    made = at_time(None, logs={ORDERS: LogOffsets(0, 100, 90)})
    plan = plan_reset(made, ToDatetime(AN_HOUR_AGO, past_end), groups=["g"])

    assert [("past-end", severity)] == rules(plan)
    assert goes_to == [change.after.offset for change in changes(plan) if change.after]


@pytest.mark.parametrize(
    ("later", "found", "planned"),
    [
        (timedelta(hours=1), [("in-the-future", "block")], ()),
        (timedelta(0), [("past-end", "note")], ("g",)),
    ],
)
def test_only_a_time_after_the_reading_is_in_the_future(
    later: timedelta, found: list[tuple[str, str]], planned: tuple[str, ...]
) -> None:
    """A future time is one finding without a plan; the instant of the reading is not future."""
    target = ToDatetime(NOON + later, PastEnd.LATEST)
    plan = plan_reset(at_time(None, at=NOON + later), target, groups=["g"])

    assert (found, planned) == (rules(plan), plan.group_ids)


def test_a_time_that_was_not_looked_up_blocks() -> None:
    """Offsets of another instant, or of other partitions, are not taken for those asked for."""
    problem = Problem("offsets by time", "it is too busy", None, *ORDERS)
    missing = at_time(None, at_time={}, problems=(problem,))
    other = at_time(TimedOffset(30, NOON), at=NOON)
    plans = [plan_reset(f, ToDatetime(AN_HOUR_AGO), groups=["g"]) for f in (missing, other)]

    assert [[("unreadable", "block")]] * 2 == [rules(plan) for plan in plans]
    assert plans[0].findings[0].why.endswith("is unknown: it is too busy")


def test_a_groups_own_row_comes_first() -> None:
    """
    A row without a group is for every group that has none of its own for that partition.

    For two groups and rows without a group, the real tool finds no plan for either (R31).
    """
    written = from_offsets({(None, ORDERS): 1, ("g", ORDERS): 0}, source="x")
    commits = [replace(AT_50, group_id=name) for name in "ghi"]
    made = facts(*commits, groups=(idle("g"), idle("h"), idle("i")))
    plan = plan_reset(made, written, groups=["g", "h", "i"])

    assert [0, 1, 1] == [change.after.offset for change in changes(plan) if change.after]


def test_rows_that_are_left_out_and_what_has_none_are_said() -> None:
    """Rows of other groups and partitions are counted; what was asked for and has none blocks."""
    audit = TopicPartition("audit", 0)
    rows = {("x", ORDERS): 1, ("x", audit): 2, ("y", ORDERS): 3}
    plan = plan_reset(facts(AT_50), from_offsets(rows, source="f"), groups=["g"])

    assert [("other-groups", "note"), ("no-row", "block")] == rules(plan)
    assert "3 rows are for groups that are not selected: x, y; skipped" == plan.findings[0].why

    made = facts(AT_50, Commit("g", "audit", 0, 5))
    written = from_offsets({("g", ORDERS): 1, ("g", audit): 2}, source="f")
    plan = plan_reset(made, written, groups=["g"], topics=["orders:0,1", "more"])

    assert [("other-partitions", "note"), ("no-row", "block"), ("no-row", "block")] == rules(plan)
    assert plan.findings[1].why.endswith("for orders:1")
    assert plan.findings[2].why.endswith("for more")
    assert [ORDERS] == [change.partition for change in changes(plan)]


@pytest.mark.parametrize("row", [-1, Position(-5)])
def test_a_negative_row_is_refused(row: int | Position) -> None:
    """A negative offset is no way to write 'none' (R27)."""
    with pytest.raises(UsageError, match=r"cannot be negative: -. for orders:0"):
        from_offsets({("g", ORDERS): row}, source="x")


offsets = st.integers(0, 120)
logs = st.builds(
    lambda start, size, stable: LogOffsets(start, start + size, min(start + stable, start + size)),
    *(st.integers(0, 60),) * 3,
)
commits = st.dictionaries(
    st.tuples(st.sampled_from("gh"), st.sampled_from(["orders", "audit"]), st.integers(0, 2)),
    offsets,
)
targets = st.one_of(
    st.sampled_from([ToEarliest(), ToLatest(), ToCurrent()]),
    st.builds(ToOffset, offsets),
    st.builds(ShiftBy, st.integers(-150, 150)),
    st.builds(ToDatetime, st.just(AN_HOUR_AGO), st.sampled_from(PastEnd)),
    st.builds(
        lambda rows: from_offsets(rows, source="x"),
        st.dictionaries(
            st.tuples(
                st.sampled_from([None, "g", "h"]),
                st.builds(TopicPartition, st.just("orders"), st.integers(0, 2)),
            ),
            offsets | st.builds(Position, offsets),
        ),
    ),
)


@st.composite
def clusters(draw: st.DrawFn) -> Snapshot:
    """Return two groups with some commits on topics with three partitions each."""
    places = [TopicPartition(topic, n) for topic in ("orders", "audit") for n in range(3)]
    found = st.none() | st.builds(TimedOffset, offsets, st.just(NOON))
    return replace(
        snapshot(idle("g"), idle("h")),
        commits=tuple(Commit(*key, offset) for key, offset in draw(commits).items()),
        logs={place: draw(logs) for place in places},
        at=AN_HOUR_AGO,
        at_time={place: draw(found) for place in places},
    )


@given(made=clusters(), target=targets, new_topics=st.booleans())
def test_what_is_planned_exists(made: Snapshot, target: Target, *, new_topics: bool) -> None:
    """Whatever the log, the commit and the mode, every planned offset is inside the log."""
    plan = plan_reset(made, target, groups=["*"], topics=["orders"], new_topics=new_topics)
    for change in changes(plan):
        log = made.logs[change.partition]
        assert change.after is not None
        assert log.log_start is not None
        assert log.log_end is not None
        assert log.log_start <= change.after.offset <= log.log_end


@given(clusters(), targets)
def test_nothing_is_planned_that_was_not_asked_for(made: Snapshot, target: Target) -> None:
    """Only the groups and partitions asked for change, and only where something differs."""
    plan = plan_reset(made, target, groups=["g"], topics=["orders:0-1"])
    held = {
        TopicPartition(c.topic, c.partition): Position.of(c)
        for c in made.commits
        if c.group_id == "g"
    }

    assert {"g"} >= set(plan.group_ids)
    assert {ORDERS, TopicPartition("orders", 1)} >= {c.partition for c in changes(plan)}
    assert [held.get(c.partition) for c in changes(plan)] == [c.before for c in changes(plan)]
    assert all(change.before != change.after for change in changes(plan))


@given(clusters(), targets, st.randoms(use_true_random=False))
def test_the_order_of_the_facts_does_not_matter(
    made: Snapshot, target: Target, random: object
) -> None:
    """The same facts in any order make the same plan, so that an approval of it holds."""

    def shuffled(rows: tuple[object, ...]) -> tuple[object, ...]:
        return tuple(random.sample(rows, len(rows)))  # type: ignore[attr-defined] # of hypothesis

    other = replace(
        made,
        groups=shuffled(made.groups),
        commits=shuffled(made.commits),
        logs=dict(shuffled(tuple(made.logs.items()))),
    )
    plans = [plan_reset(f, target, groups=["*"]) for f in (made, other)]

    assert plans[0] == plans[1]
    assert plans[0].fingerprint == plans[1].fingerprint


@given(clusters())
def test_the_ends_are_exact(made: Snapshot) -> None:
    """To-earliest and to-latest leave every committed partition at the start or the stable end."""
    for target, edge in ((ToEarliest(), "log_start"), (ToLatest(), "last_stable")):
        planned = {
            (step.group_id, *change.partition): change.after
            for step, change in plan_reset(made, target, groups=["*"]).changes
        }
        for commit in made.commits:
            key = (commit.group_id, commit.topic, commit.partition)
            after = planned.get(key, Position.of(commit))
            assert after is not None
            assert getattr(made.logs[TopicPartition(*key[1:])], edge) == after.offset
