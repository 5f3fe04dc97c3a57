"""What a reset plans, what it refuses, and what it says about both."""

from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple

import pytest
from facts import NOON, changes, idle, live, member, rules, snapshot
from held import holder
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import UsageError
from toolkit.model import (
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
    Unread,
)
from toolkit.plan import NEW_TOPICS, Action, Change, Finding, Intent, Plan, Position, Severity, Step
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
    from_group,
    from_offsets,
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


def test_a_plan_is_one_step_a_group() -> None:
    """A plan says for whom, what was asked for, and on which facts it rests."""
    an_hour, two_hours = timedelta(hours=1), timedelta(hours=2)
    orders = replace(AT_50, committed_at=NOON - an_hour)
    audit = Commit("g", "audit", 1, 7, committed_at=NOON - two_hours)
    plan = plan_reset(
        facts(orders, audit), ToEarliest(), groups=["g"], topics=["orders", "audit:1"]
    )

    why = "the log start; commit metadata cleared"
    audited = Change(TopicPartition("audit", 1), Position(7), Position(0), "the log start")
    ordered = Change(ORDERS, Position(50, 3, "mine"), Position(0), why)
    group = GroupType.CLASSIC, GroupState.EMPTY, NOON - an_hour
    step = Step("g", Action.COMMIT, (audited, ordered), *group)
    request = "reset g, orders, audit:1 to-earliest"
    assert Plan(Intent.RESET, request, "eu", "id", NOON, (step,)) == plan


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


def test_groups_are_named() -> None:
    """Each group is planned once, in order of names; no name never means all groups."""
    commits = [replace(AT_50, group_id=name) for name in ("b", "a1", "a2")]
    made = facts(*commits, groups=tuple(idle(name) for name in ("b", "a2", "a1")))

    assert ("a1", "a2", "b") == plan_reset(made, ToLatest(), groups=["b", "a*", "a1"]).group_ids
    with pytest.raises(UsageError, match="no group given"):
        plan_reset(facts(), ToLatest(), groups=[])


WHOLE = LogOffsets(0, 100, 100)
WITH_EPOCHS = LogOffsets(0, 100, 100, (EpochEnd(0, 40), EpochEnd(4, 100)))


def row(written: int | Position, *, group: str | None = "g") -> Target:
    """Return the target of a file with one row, for orders:0."""
    return from_offsets({(group, ORDERS): written}, source="x")


CLEARED = "commit metadata cleared"
RECREATED = f"the log has no leader epoch 7: the topic was re-created; {CLEARED}"


class Place(NamedTuple):
    """Where a commit at 50 with leader epoch 7 goes, what the change says, and the finding."""

    target: Target
    after: Position
    log: LogOffsets = WHOLE
    says: str = ""
    note: str = ""


AT_EPOCH_4 = Position(50, 4)
PLACES = {
    "epoch of the record before it": Place(ToOffset(30), Position(30, 0), WITH_EPOCHS),
    "epoch of a later record": Place(ToOffset(60), Position(60, 4), WITH_EPOCHS),
    "a bare offset has no metadata": Place(row(10, group=None), Position(10)),
    "a position brings epoch and metadata": Place(
        row(Position(20, 2, "saved")), Position(20, 2, "saved")
    ),
    "only the metadata differs": Place(row(Position(50, 7, "saved")), Position(50, 7, "saved")),
    "an epoch that the log cannot have": Place(
        row(Position(20, 7, "saved")), Position(20, 0), WITH_EPOCHS, RECREATED
    ),
    # The same number is an offset of another log now.
    "same offset, re-created topic": Place(ToOffset(50), AT_EPOCH_4, WITH_EPOCHS, RECREATED),
    "to-current, re-created topic": Place(ToCurrent(), AT_EPOCH_4, WITH_EPOCHS, RECREATED),
    "shift by 0, re-created topic": Place(ShiftBy(0), AT_EPOCH_4, WITH_EPOCHS, RECREATED),
    "latest without a last stable offset": Place(ToLatest(), Position(100), LogOffsets(0, 100)),
    # A read_committed reader placed behind the last stable offset would miss records.
    "latest at an open transaction": Place(
        *(ToLatest(), Position(90), LogOffsets(0, 100, 90)),
        says="a transaction is open; log end offset is 100",
    ),
    "deleted records": Place(
        *(ToOffset(5), Position(40), LogOffsets(40, 100, 100)),
        says=f"offset 5; clamped to the log start offset 40: 5 is before it; {CLEARED}",
        note="before-log-start: offset 5 is before the log start offset 40: those records are "
        "deleted",
    ),
    "no record is before offset 0": Place(
        *(ShiftBy(-70), Position(0)),
        says=f"70 back; clamped to the log start offset 0: -20 is before it; {CLEARED}",
        note="clamped: clamped to the log start offset 0: -20 is before it",
    ),
    "a row past the end": Place(
        *(row(Position(200, 7, "saved")), Position(100)),
        says=f"as given in the input; clamped to the log end offset 100: 200 is past it; {CLEARED}",
        note="clamped: clamped to the log end offset 100: 200 is past it",
    ),
}


@pytest.mark.parametrize("case", PLACES.values(), ids=PLACES)
def test_a_change_has_its_place_epoch_and_metadata(case: Place) -> None:
    """
    An offset goes to its place in the log, or the nearest end, which change and note say.

    It gets the leader epoch of its new place, and only the metadata of the file.
    """
    committed = replace(AT_50, leader_epoch=7)
    plan = plan_reset(facts(committed, log=case.log), case.target, groups=["g"])

    (change,) = changes(plan)
    assert (Position(50, 7, "mine"), case.after) == (change.before, change.after)
    assert case.says in change.why
    rule, _, why = case.note.partition(": ")
    severity = Severity.BLOCK if rule == "before-log-start" else Severity.NOTE
    found = (Finding(rule, severity, why, "g", *ORDERS),) if case.note else ()
    assert found == plan.findings


def test_metadata_is_cleared_where_nothing_moves() -> None:
    """Offset and leader epoch stay; what has no metadata is no change."""
    bare = Commit("g", "audit", 0, 7)
    plan = plan_reset(facts(AT_50, bare), ClearMetadata(), groups=["g"])
    why = "the same offset, commit metadata cleared"

    assert [(Position(50, 3), why)] == [(c.after, c.why) for c in changes(plan)]


@pytest.mark.parametrize("target", [ShiftBy(5), ToCurrent()])
def test_a_partition_without_a_commit_is_a_note(target: Target) -> None:
    """It is no failure of its group, whose other partitions are planned (R13, R23b)."""
    made = facts(Commit("g", "orders", 1, 200))
    plan = plan_reset(made, target, groups=["g"], topics=["orders:0,1"])

    assert ("no-commit", "note") == rules(plan)[0]
    assert [1] == [change.partition.partition for change in changes(plan)]


def test_a_group_without_a_commit_is_not_reset_as_a_whole() -> None:
    """Without topics, nothing says which partitions it could be about (R39b)."""
    plan = plan_reset(facts(), ToLatest(), groups=["g"])

    assert ([("no-commit", "note")], []) == (rules(plan), changes(plan))


def test_one_live_group_blocks_the_plan_of_all() -> None:
    """The idle one is planned, and not reset alone, as the real tool does (R43)."""
    busy = live("busy", member("orders"))
    made = facts(AT_50, replace(AT_50, group_id="busy"), groups=(idle(), busy))
    plan = plan_reset(made, ToLatest(), groups=["g", "busy"])

    assert [("group-live", "block", "busy")] == [
        (one.rule, one.severity, one.group_id) for one in plan.findings
    ]


def test_an_idle_group_of_the_newer_protocol_is_reset_as_any_other() -> None:
    """Its type is none of the reasons to refuse it (R55)."""
    group = idle(kind=GroupType.CONSUMER)
    plan = plan_reset(facts(AT_50, groups=(group,)), ToOffset(33), groups=["g"])

    assert ([], [Position(33)]) == (rules(plan), [change.after for change in changes(plan)])


LIVE, SHARE, UNKNOWN, DEAD = (
    facts(AT_50, groups=(group,))
    for group in (
        live("g", member("orders")),
        idle(kind=GroupType.SHARE),
        idle(kind=GroupType.UNKNOWN),
        replace(idle(), state=GroupState.DEAD),
    )
)
UNREAD_MEMBERS = facts(AT_50, problems=(Problem(Unread.MEMBERS, "no answer", "g"),))
BLOCKED = {
    "open transaction": (facts(replace(AT_50, pending=True)), "pending-transaction", 1),
    # People see what would be done, and who keeps it from being done (R42).
    "live group": (LIVE, "group-live", 1),
    "share group": (SHARE, "share-group", 0),
    "dead group": (DEAD, "no-such-group", 0),
    "unknown group type": (UNKNOWN, "unreadable", 1),
    "members unread": (UNREAD_MEMBERS, "unreadable", 1),
    "log unread": (replace(facts(AT_50), logs={}), "unreadable", 0),
}


@pytest.mark.parametrize(("about", "rule", "planned"), BLOCKED.values(), ids=BLOCKED)
def test_blocks_of_a_reset(about: Snapshot, rule: str, planned: int) -> None:
    """One finding blocks, and the change is still in the plan if its start is known."""
    plan = plan_reset(about, ToLatest(), groups=["g"])

    assert ([(rule, "block")], planned) == (rules(plan), len(changes(plan)))


def test_pending_offsets_of_the_source_group_are_not_used() -> None:
    """They may change at any moment; the rest can be planned."""
    here = facts(
        AT_50,
        replace(AT_50, partition=1),
        replace(AT_50, group_id="source", offset=20, pending=True),
        replace(AT_50, group_id="source", offset=30, partition=1),
        groups=(idle(), idle("source")),
    )
    target = from_group(here, "source", source="from-group source")

    plan = plan_reset(here, target, groups=["g"])
    other = plan_reset(here, target, groups=["g"], topics=["orders:1"])

    assert [("pending-transaction", "block", 0)] == [
        (one.rule, one.severity, one.partition) for one in plan.findings
    ]
    assert "in the group that the offset is from" in plan.findings[0].why
    assert {Severity.NOTE} == {one.severity for one in other.findings}


def test_a_reset_of_paused_partitions_moves_them_while_the_group_lives() -> None:
    """Nobody reads them, so nobody overwrites the change; a partition that is read blocks."""
    free = TopicPartition("orders", 1)

    paused = live("g", member("orders", owns=(free,)), holder(0))
    about = facts(AT_50, replace(AT_50, partition=1), groups=(paused,))
    one, both = (
        plan_reset(about, ToEarliest(), groups=["g"], topics=topics)
        for topics in (["orders:0"], ["orders"])
    )

    assert ([], [Action.MOVE]) == (rules(one), [step.action for step in one.steps])
    assert [Action.COMMIT] == [step.action for step in both.steps]
    assert [("group-live", "block")] == rules(both)
    assert "; orders:1 is not paused. Pause" in both.findings[0].why


@pytest.mark.parametrize("name", ["nope", "nope*"])
def test_a_group_that_does_not_exist(name: str) -> None:
    """A misspelt name is a finding under that name, and the other groups are planned (R41)."""
    plan = plan_reset(facts(AT_50), ToLatest(), groups=[name, "g"])

    assert [("no-such-group", name)] == [(f.rule, f.group_id) for f in plan.findings]
    assert ("g",) == plan.group_ids


def test_an_incomplete_list_of_groups_is_not_taken_for_whole() -> None:
    """A name that is not in it may exist, and a pattern may match more."""
    problem = Problem(Unread.GROUPS, "those coordinated by broker 3: it did not answer")
    made = facts(AT_50, problems=(problem,))

    assert [("unreadable", "block")] == rules(plan_reset(made, ToLatest(), groups=["nope"]))
    assert [("incomplete", "note")] == rules(plan_reset(made, ToLatest(), groups=["g*"]))
    assert [] == rules(plan_reset(made, ToLatest(), groups=["g"]))


def test_new_topics_are_allowed_by_the_plan() -> None:
    """The plan says so for later checks."""
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


FOUND_30 = TimedOffset(30, AN_HOUR_AGO + timedelta(milliseconds=1500))
LATER = NOON + timedelta(hours=1)
CUT = {ORDERS: LogOffsets(1, 100, 100)}
OPEN, NO_RECORDS = {ORDERS: LogOffsets(0, 100, 90)}, {ORDERS: LogOffsets(0, 0, 0)}
BUSY = Problem(Unread.OFFSETS_BY_TIME, "it is too busy", None, *ORDERS)
KEEP, LATEST, FAIL = (
    ToDatetime(AN_HOUR_AGO, choice) for choice in (PastEnd.KEEP, PastEnd.LATEST, PastEnd.FAIL)
)
TO_NOON, TO_LATER = (ToDatetime(at, PastEnd.LATEST) for at in (NOON, LATER))
UNREAD = at_time(None, at_time={}, problems=(BUSY,))
NOTE_PAST_END, UNKNOWN_TIME = [("past-end", "note")], [("unreadable", "block")]
TIMES = {
    "first record at or after it": (at_time(FOUND_30), KEEP, [], [30]),
    # Where the log begins later than the time asked for, older records may be gone (R19c).
    "before the log start": (
        at_time(TimedOffset(1, NOON), logs=CUT),
        *(KEEP, [("before-log-start", "block")], [1]),
    ),
    "exactly at the log start": (at_time(TimedOffset(1, AN_HOUR_AGO), logs=CUT), KEEP, [], [1]),
    "before the first record of all": (at_time(TimedOffset(0, NOON)), KEEP, [], [0]),
    # It is never silently the log end: the operator chooses, and the plan says so (R18).
    "past the last record: keep": (at_time(None, logs=OPEN), KEEP, NOTE_PAST_END, []),
    "past the last record: latest": (at_time(None, logs=OPEN), LATEST, NOTE_PAST_END, [90]),
    "past the last record: fail": (at_time(None, logs=OPEN), FAIL, [("past-end", "block")], []),
    "empty log: keep": (at_time(None, logs=NO_RECORDS), KEEP, NOTE_PAST_END, []),
    "empty log: latest": (at_time(None, logs=NO_RECORDS), LATEST, NOTE_PAST_END, [0]),
    "in the future": (at_time(None, at=LATER), TO_LATER, [("in-the-future", "block")], []),
    "at the instant of the reading": (at_time(None, at=NOON), TO_NOON, NOTE_PAST_END, [100]),
    # Offsets of another instant, or of other partitions, are not taken for those asked for.
    "not looked up": (UNREAD, KEEP, UNKNOWN_TIME, []),
    "another instant": (at_time(TimedOffset(30, NOON), at=NOON), KEEP, UNKNOWN_TIME, []),
}


@pytest.mark.parametrize(("about", "target", "findings", "offsets"), TIMES.values(), ids=TIMES)
def test_a_reset_to_a_time(
    about: Snapshot, target: Target, findings: list[tuple[str, str]], offsets: list[int]
) -> None:
    """It goes to the first record at or after the time, or a finding says why not."""
    plan = plan_reset(about, target, groups=["g"])

    goes_to = [change.after.offset for change in changes(plan) if change.after]
    assert (findings, offsets) == (rules(plan), goes_to)


def test_a_reset_to_a_time_has_the_found_time() -> None:
    """The change has the requested time and that of the record; a failed lookup its reason."""
    (change,) = changes(plan_reset(at_time(FOUND_30), KEEP, groups=["g"]))
    unread = plan_reset(UNREAD, KEEP, groups=["g"])

    why = "first record at or after 2026-03-01 11:00:00 UTC has timestamp"
    assert f"{why} 2026-03-01 11:00:01.500 UTC; commit metadata cleared" == change.why
    assert unread.findings[0].why.endswith("is unknown: it is too busy")


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


def test_rows_left_out_and_partitions_without_a_row() -> None:
    """Rows of other groups and partitions are counted; requested partitions without a row block."""
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

    written = from_offsets({("g", ORDERS): 1, ("g", TopicPartition("orders", 9)): 1}, source="f")
    assert [("no-such-partition", "block")] == rules(
        plan_reset(facts(AT_50), written, groups=["g"])
    )  # R28


@pytest.mark.parametrize("row", [-1, Position(-5)])
def test_a_negative_row_is_refused(row: int | Position) -> None:
    """A negative offset is no way to write 'none' (R27), and is none to reset to (R08)."""
    with pytest.raises(UsageError, match=r"cannot be negative: -. for orders:0"):
        from_offsets({("g", ORDERS): row}, source="x")
    with pytest.raises(UsageError, match="negative"):
        ToOffset(-5)


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
def test_planned_offsets_exist(made: Snapshot, target: Target, *, new_topics: bool) -> None:
    """Whatever the log, the commit and the mode, every planned offset is inside the log."""
    plan = plan_reset(made, target, groups=["*"], topics=["orders"], new_topics=new_topics)
    for change in changes(plan):
        log = made.logs[change.partition]
        assert change.after.offset in range(log.log_start or 0, (log.log_end or 0) + 1)


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
    assert all(step.changes for step in plan.steps)


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
            assert getattr(made.logs[TopicPartition(*key[1:])], edge) == after.offset
