"""Taking a plan back restores exactly what was there, whatever part of the plan was done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import held as paused_groups
import pytest
from facts import NOON, changes, idle, live, member, rules, snapshot
from held import group, holder, notes, reader, without_commits
from hypothesis import given
from hypothesis import strategies as st

from toolkit.model import (
    NO_SUCH_GROUP,
    Commit,
    GroupState,
    GroupType,
    Problem,
    Snapshot,
    TopicPartition,
)
from toolkit.plan import Action, Change, Finding, Intent, Plan, Position, Severity, Step
from toolkit.planning.changes.pause import plan_pause
from toolkit.planning.changes.undo import IfMoved, plan_undo
from toolkit.planning.holds.hold_context import HoldTerms

# What a cluster holds: groups that have committed anything, with what they have committed.
Held = dict[str, dict[TopicPartition, Position]]

ORDERS = TopicPartition("orders", 0)
PAYMENTS = TopicPartition("payments", 0)
AT_10, AT_20, AT_30 = Position(10, 4, "mine"), Position(20, 5), Position(30)


def facts_of(held: Held) -> Snapshot:
    """Return a snapshot in which idle groups hold offsets."""
    commits = [
        Commit(name, *partition, position.offset, position.leader_epoch, position.metadata)
        for name, positions in held.items()
        for partition, position in positions.items()
    ]
    return snapshot(*map(idle, held), commits=tuple(commits))


def plan(*steps: Step, intent: Intent = Intent.RESET) -> Plan:
    """Return a plan for the cluster of these tests."""
    return Plan(intent, "reset g to-earliest", "eu", "id", NOON, steps)


def step(
    action: Action,
    *changes: Change,
    group: str = "g",
    state: GroupState | None = GroupState.EMPTY,
    needs: str | None = None,
) -> Step:
    """Return a step about a classic group."""
    return Step(group, action, changes, GroupType.CLASSIC, state, needs=needs)


def apply_to(held: Held, done: Plan) -> Held:
    """Return what a cluster holds after a plan; a group without offsets is gone."""
    after = {name: dict(positions) for name, positions in held.items()}
    for one in done.steps:
        positions = after.setdefault(one.group_id, {})
        for change in one.changes:
            assert change.before == positions.pop(change.partition, None)
            if change.after is not None:
                positions[change.partition] = change.after
        assert one.action is not Action.DELETE_GROUP or not positions
    return {name: positions for name, positions in after.items() if positions}


positions = st.builds(
    Position, st.integers(0, 10**12), st.none() | st.integers(0, 100), st.text(max_size=5)
)
partitions = st.builds(TopicPartition, st.sampled_from(["orders", "payments"]), st.integers(0, 2))
helds = st.dictionaries(
    st.sampled_from(["a", "b", "c"]), st.dictionaries(partitions, positions, min_size=1)
)


@st.composite
def held_and_plan(draw: st.DrawFn) -> tuple[Held, Plan]:
    """Return what a cluster holds, and a plan that starts from it."""
    held = draw(helds)
    steps: list[Step] = []
    for name in draw(st.lists(st.sampled_from(["a", "b", "c", "new"]), unique=True)):
        steps.extend(draw_steps(draw, name, held.get(name, {})))
    return held, plan(*steps)


def draw_steps(draw: st.DrawFn, name: str, held: dict[TopicPartition, Position]) -> Iterator[Step]:
    """Yield steps about one group: all of it is deleted, or some offsets are set and removed."""
    state = GroupState.EMPTY if held else None
    if held and draw(st.booleans()):
        gone = [Change(partition, before, None) for partition, before in held.items()]
        yield step(Action.DELETE_GROUP, *gone, group=name)
        return
    wanted = draw(st.dictionaries(partitions, positions, min_size=1))
    changes = [Change(p, held.get(p), after) for p, after in wanted.items()]
    yield step(Action.COMMIT, *changes, group=name, state=state)
    removable = [p for p in held if p not in wanted]
    removed = [Change(p, held[p], None) for p in removable if draw(st.booleans())]
    if removed:
        yield step(Action.DELETE_OFFSETS, *removed, group=name)


@given(held_and_plan())
def test_an_undo_can_be_undone(case: tuple[Held, Plan]) -> None:
    """Offsets, leader epochs and metadata come back, made groups go, and so it is the other way."""
    held, done = case
    applied = apply_to(held, done)
    undo = plan_undo(done, facts_of(applied))

    again = plan_undo(undo, facts_of(apply_to(applied, undo)))

    assert held == apply_to(applied, undo)
    assert applied == apply_to(held, again)


@given(held_and_plan(), st.data())
def test_what_was_done_of_a_plan_is_undone(case: tuple[Held, Plan], data: st.DataObject) -> None:
    """A run that was cut off is undone from whichever of its changes were made."""
    held, done = case

    def part(one: Step) -> Step:
        if one.action is Action.DELETE_GROUP:  # a broker deletes a group whole or not at all
            return replace(one, changes=one.changes if data.draw(st.booleans()) else ())
        return replace(one, changes=tuple(c for c in one.changes if data.draw(st.booleans())))

    parts = [part(one) for one in done.steps]
    cut_off = replace(done, steps=tuple(one for one in parts if one.changes))
    applied = apply_to(held, cut_off)

    assert held == apply_to(applied, plan_undo(done, facts_of(applied)))


def test_an_offset_that_moved_on_is_left_and_said() -> None:
    """What somebody committed since blocks, so that nobody's progress is undone by accident."""
    reset = plan(step(Action.COMMIT, Change(ORDERS, AT_10, AT_20), Change(PAYMENTS, AT_10, AT_20)))
    undo = plan_undo(reset, facts_of({"g": {ORDERS: AT_30, PAYMENTS: AT_20}}))

    why = "committed offset is 30, not 20 as left by this run"
    assert (Finding("moved-since", Severity.BLOCK, why, "g", *ORDERS),) == undo.findings
    assert [Change(PAYMENTS, AT_20, AT_10, "as it was before")] == changes(undo)


RESET = plan(step(Action.COMMIT, Change(ORDERS, AT_10, AT_20)))
MADE = plan(step(Action.COMMIT, Change(ORDERS, None, AT_10), state=None), intent=Intent.COPY)
DELETED = plan(step(Action.DELETE_GROUP, Change(ORDERS, AT_10, None)))


@pytest.mark.parametrize(("done", "before"), [(RESET, AT_10), (MADE, None)], ids=["moved", "added"])
def test_an_offset_that_moved_on_goes_back_where_that_is_wanted(
    done: Plan, before: Position | None
) -> None:
    """With `restore`, the state before the run replaces whatever was committed after it."""
    undo = plan_undo(done, facts_of({"g": {ORDERS: AT_30}}), moved=IfMoved.RESTORE)

    (change,) = changes(undo)
    assert (AT_30, before, ()) == (change.before, change.after, undo.findings)


def test_a_deleted_group_comes_back_as_a_simple_one() -> None:
    """All its commits make it anew, and that its offsets expire by another clock is said."""
    deletion = plan(
        step(Action.DELETE_GROUP, Change(ORDERS, AT_10, None), Change(PAYMENTS, AT_20, None)),
        intent=Intent.DELETE_GROUPS,
    )
    undo = plan_undo(deletion, facts_of({}))

    (back,) = undo.steps
    assert (Action.COMMIT, True, 2) == (back.action, back.creates, len(back.changes))
    assert [("comes-back-simple", "note")] == rules(undo)
    assert {"new-group"} == undo.allows


RESCUED = plan(step(Action.COMMIT, Change(ORDERS, AT_10, AT_10)), intent=Intent.RESCUE)
ADDED = plan(step(Action.COMMIT, Change(ORDERS, None, AT_20)))
READ = replace(facts_of({"g": {ORDERS: AT_20}}), groups=(live("g", member("orders")),))


@pytest.mark.parametrize(
    ("done", "now", "found", "why"),
    [
        (plan(step(Action.DELETE_GROUP)), facts_of({}), ("cannot-come-back", "note"), ""),
        # A clock cannot be turned back.
        (
            RESCUED,
            facts_of({"g": {ORDERS: AT_10}}),
            *(("nothing-to-undo", "note"), "no committed offset was changed"),
        ),
        (
            RESET,
            facts_of({"g": {ORDERS: AT_10}}),
            *(("nothing-to-undo", "note"), "everything is already as before the run"),
        ),
        # The broker would refuse to delete the offset of a topic that a member subscribes to.
        (ADDED, READ, ("subscribed", "block"), ""),
    ],
    ids=["a group without offsets cannot be made", "rescue", "undone already", "subscribed"],
)
def test_what_has_nothing_to_undo(
    done: Plan, now: Snapshot, found: tuple[str, str], why: str
) -> None:
    """No step is planned, and why is said."""
    undo = plan_undo(done, now)

    assert ((), [found]) == (undo.steps, rules(undo))
    assert why in undo.findings[0].why


@pytest.mark.parametrize(
    ("positions", "changed"),
    [
        ({ORDERS: AT_10, PAYMENTS: AT_20}, {}),
        ({ORDERS: AT_10}, {"problems": (Problem("committed offset", "denied", "g", *PAYMENTS),)}),
        ({ORDERS: AT_10}, {"groups": (live("g", member("payments")),)}),
    ],
    ids=["used since", "not all commits could be read", "has members"],
)
def test_a_group_that_was_made_stays_where_others_may_need_it(
    positions: dict[TopicPartition, Position], changed: dict[str, Any]
) -> None:
    """Only the offset that the plan wrote is removed."""
    undo = plan_undo(MADE, replace(facts_of({"g": positions}), **changed))

    assert [(Action.DELETE_OFFSETS, ORDERS)] == [(s.action, c.partition) for s, c in undo.changes]


RENAME = plan(
    step(Action.COMMIT, Change(ORDERS, None, AT_10), group="new", state=None),
    step(Action.DELETE_GROUP, Change(ORDERS, AT_10, None), group="old", needs="new"),
    intent=Intent.RENAME,
)


def renamed(old: str) -> Plan:
    """Return the plan of a rename to `new`."""
    made, gone = RENAME.steps
    return replace(RENAME, steps=(made, replace(gone, group_id=old)))


@pytest.mark.parametrize("old", ["old", ""])
def test_a_rename_is_undone_backwards(old: str) -> None:
    """The old group is back before the new one goes, and the same holds for undoing that."""
    undo = plan_undo(renamed(old), facts_of({"new": {ORDERS: AT_10}}))
    again = plan_undo(undo, facts_of({old: {ORDERS: AT_10}}))

    assert [(Action.COMMIT, old, None), (Action.DELETE_GROUP, "new", old)] == [
        (one.action, one.group_id, one.needs) for one in undo.steps
    ]
    assert [(Action.COMMIT, "new", None), (Action.DELETE_GROUP, old, "new")] == [
        (one.action, one.group_id, one.needs) for one in again.steps
    ]


@pytest.mark.parametrize(("old", "shown"), [("old", "old"), ("", '""')])
def test_the_new_group_of_a_rename_stays_while_the_old_one_cannot_come_back(
    old: str, shown: str
) -> None:
    """Otherwise its offsets would be nowhere."""
    undo = plan_undo(renamed(old), facts_of({"new": {ORDERS: AT_10}, old: {ORDERS: AT_30}}))

    assert () == undo.steps
    assert [("moved-since", "block"), ("kept", "note")] == rules(undo)
    assert f"kept, because {shown} cannot be restored" == undo.findings[-1].why


def test_a_live_group_is_not_put_back_but_loses_what_nobody_reads() -> None:
    """Commits are blocked by members; offsets of unsubscribed topics are deleted while it runs."""
    done = plan(step(Action.COMMIT, Change(ORDERS, AT_10, AT_20), Change(PAYMENTS, None, AT_20)))
    facts = replace(
        facts_of({"g": {ORDERS: AT_20, PAYMENTS: AT_20}}), groups=(live("g", member("orders")),)
    )
    undo = plan_undo(done, facts)

    expected = [(Action.COMMIT, ORDERS), (Action.DELETE_OFFSETS, PAYMENTS)]
    assert expected == [(s.action, c.partition) for s, c in undo.changes]
    assert [("group-live", "block")] == rules(undo)


@pytest.mark.parametrize(
    ("problem", "rule"),
    [
        (Problem("committed offset", "not authorised", "g", *ORDERS), "unreadable"),
        (Problem("log offsets", "the topic does not exist", None, "orders"), "missing-partition"),
        (Problem("groups coordinated by broker 1", "no answer", hides_groups=True), "unreadable"),
        (Problem(NO_SUCH_GROUP, "no group matches this name", "g"), ""),
    ],
)
def test_what_is_not_known_blocks(problem: Problem, rule: str) -> None:
    """An offset, topic or group that could not be read is not taken for a missing one."""
    undo = plan_undo(DELETED, replace(facts_of({}), problems=(problem,)))

    blocking = [f.rule for f in undo.findings if f.severity is Severity.BLOCK]
    assert ([rule] if rule else [], [] if rule else ["g"]) == (blocking, [*undo.group_ids])


def test_an_undo_is_for_the_cluster_of_its_plan() -> None:
    """Facts of another cluster do not make it a plan for that one; no topic is the same there."""
    ids = {"orders": "id2"}
    other = replace(facts_of({}), cluster="us", cluster_id="other", topic_ids=ids)

    undo = plan_undo(replace(RENAME, topic_ids={"orders": "id1"}), other)

    assert ("eu", "id") == (undo.cluster, undo.cluster_id)
    assert ["comes-back-simple"] == [finding.rule for finding in undo.findings]


def test_an_offset_that_is_outside_the_log_comes_back_and_says_so() -> None:
    """An undo restores exactly, also what retention has overtaken."""
    undo = plan_undo(DELETED, snapshot(logs={ORDERS: (15, 40)}))

    why = "as it was before; offset 10 is out of range: log start offset 15, log end offset 40"
    assert [Change(ORDERS, None, AT_10, why)] == changes(undo)


def test_offsets_of_a_topic_that_was_made_anew_block() -> None:
    """They are told once for each topic and stay in the plan, which is on the topic of now."""
    gone = [Change(TopicPartition("orders", n), AT_10, None) for n in range(2)]
    gone.append(Change(PAYMENTS, AT_20, None))
    done = replace(
        plan(step(Action.DELETE_OFFSETS, *gone)), topic_ids={"orders": "id1", "payments": "id2"}
    )
    now = replace(facts_of({"g": {}}), topic_ids={"orders": "id3", "payments": "id2", "audit": ""})
    undo = plan_undo(done, now)

    blocking = [(f.rule, f.group_id, f.topic) for f in undo.findings]
    assert [("topic-recreated", "g", "orders")] == blocking
    assert 3 == len(changes(undo))
    assert {"orders": "id3", "payments": "id2"} == undo.topic_ids
    assert () == plan_undo(undo, replace(now, commits=committed(undo))).findings

    # What a plan added goes away again, whichever topic has the name now.
    facts = replace(facts_of({"g": {ORDERS: AT_10}}), topic_ids={"orders": "id2"})
    assert () == plan_undo(replace(MADE, topic_ids={"orders": "id1"}), facts).findings


def committed(made: Plan) -> tuple[Commit, ...]:
    """Return the commits that a plan makes."""
    return tuple(
        Commit(s.group_id, *c.partition, c.after.offset, c.after.leader_epoch, c.after.metadata)
        for s, c in made.changes
        if c.after
    )


@pytest.mark.parametrize(("then", "now"), [({}, {"orders": "id2"}), ({"orders": "id1"}, {})])
def test_a_topic_of_which_the_id_is_not_known_is_taken_for_the_same(
    then: dict[str, str], now: dict[str, str]
) -> None:
    """Nothing tells that it is another."""
    undo = plan_undo(replace(DELETED, topic_ids=then), replace(facts_of({}), topic_ids=now))

    assert [("comes-back-simple", "note")] == rules(undo)


def test_a_rename_is_undone_in_order_where_a_topic_was_recreated() -> None:
    """An override lets both steps through, in their order."""
    both = [
        replace(one, changes=(*one.changes, one.changes[0]._replace(partition=PAYMENTS)))
        for one in RENAME.steps
    ]
    done = replace(RENAME, steps=tuple(both), topic_ids={"orders": "id1"})
    # The broker dropped what was committed of the topic that was deleted.
    undo = plan_undo(done, replace(facts_of({"new": {PAYMENTS: AT_10}}), topic_ids={"orders": "x"}))

    assert [("old", None), ("new", "old")] == [(one.group_id, one.needs) for one in undo.steps]
    assert ["comes-back-simple", "topic-recreated"] == sorted(f.rule for f in undo.findings)


def test_what_was_committed_before_a_pause_is_deleted_once_the_group_has_stopped() -> None:
    """While it is live brokers delete no offset of what it subscribes to, and that is said."""
    never = without_commits(paused_groups.facts(group()), 0)
    terms = HoldTerms(commit_missing="latest")
    done = plan_pause(never, group="g", topics=["orders:0"], terms=terms)
    paused = group(reader("a", 1), reader("b", 2, 3), holder(0))
    committed = paused_groups.facts(paused, committed=20)

    while_live = plan_undo(done, committed)
    assert [Action.RELEASE] == [step.action for step in while_live.steps]
    assert "stays-committed" in notes(while_live)

    stopped = replace(group(), state=GroupState.EMPTY, members=())
    back = plan_undo(done, replace(committed, groups=(stopped,)))
    assert [(Action.DELETE_OFFSETS, [0])] == [
        (step.action, [c.partition.partition for c in step.changes]) for step in back.steps
    ]
