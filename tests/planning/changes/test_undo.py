"""Taking a plan back restores exactly what was there, whatever part of the plan was done."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import held as paused_groups
import pytest
from facts import changes, idle, live, member, rules, snapshot
from guardrail_cases import ORDERS, plan, step
from held import ALICE, group, holder, notes, reader, without_commits
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import UsageError
from toolkit.model import Commit, GroupState, Problem, Snapshot, TopicPartition, Unread
from toolkit.plan import Action, Change, Finding, Intent, Plan, Position, Severity, Step
from toolkit.planning.changes.pause import plan_pause
from toolkit.planning.changes.undo import IfMoved, of_groups, plan_undo
from toolkit.planning.holds.hold_context import HoldTerms

# What a cluster holds: groups that have committed anything, with what they have committed.
Held = dict[str, dict[TopicPartition, Position]]

PAYMENTS = TopicPartition("payments", 0)
AT_10, AT_20, AT_30 = Position(10, 4, "mine"), Position(20, 5), Position(30)


def facts_of(held: Held) -> Snapshot:
    commits = [
        Commit(name, *partition, position.offset, position.leader_epoch, position.metadata)
        for name, positions in held.items()
        for partition, position in positions.items()
    ]
    return snapshot(*map(idle, held), commits=tuple(commits))


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
    if held and draw(st.booleans()):
        gone = [Change(partition, before, None) for partition, before in held.items()]
        yield step(*gone, action=Action.DELETE_GROUP, group_id=name)
        return
    targets = draw(st.dictionaries(partitions, positions, min_size=1))
    changes = [Change(p, held.get(p), after) for p, after in targets.items()]
    yield step(*changes, group_id=name, state=GroupState.EMPTY if held else None)
    others = [p for p in held if p not in targets]
    if removed := [Change(p, held[p], None) for p in others if draw(st.booleans())]:
        yield step(*removed, action=Action.DELETE_OFFSETS, group_id=name)


@given(held_and_plan(), st.data())
def test_the_applied_part_of_a_plan_is_undone(case: tuple[Held, Plan], data: st.DataObject) -> None:
    """
    Offsets, epochs and metadata are restored, created groups deleted, and the other way.

    A run that was cut off is undone from whichever of its changes were made.
    """
    held, done = case

    def part(one: Step) -> Step:
        if one.action is Action.DELETE_GROUP:  # a broker deletes a group whole or not at all
            return replace(one, changes=one.changes if data.draw(st.booleans()) else ())
        return replace(one, changes=tuple(c for c in one.changes if data.draw(st.booleans())))

    parts = [part(one) for one in done.steps]
    cut_off = replace(done, steps=tuple(one for one in parts if one.changes))
    for made in (done, cut_off):
        applied = apply_to(held, made)
        undo = plan_undo(done, facts_of(applied))
        again = plan_undo(undo, facts_of(held))

        assert held == apply_to(applied, undo)
        assert applied == apply_to(held, again)


def test_an_offset_that_has_advanced_blocks() -> None:
    """So that nobody's progress is undone by accident."""
    reset = plan(step(Change(ORDERS, AT_10, AT_20), Change(PAYMENTS, AT_10, AT_20)))
    undo = plan_undo(reset, facts_of({"g": {ORDERS: AT_30, PAYMENTS: AT_20}}))

    why = "committed offset is 30, not 20 as left by this run"
    assert (Finding("moved-since", Severity.BLOCK, why, "g", *ORDERS),) == undo.findings
    assert [Change(PAYMENTS, AT_20, AT_10, "as it was before")] == changes(undo)
    # At the same offset, what differs is told.
    noted = facts_of({"g": {ORDERS: Position(20, None, "x"), PAYMENTS: AT_10}})
    now, left = "20 (no leader epoch, metadata 'x')", "20 (leader epoch 5, metadata '')"
    assert [f"committed offset is {now}, not {left} as left by this run"] == [
        finding.why for finding in plan_undo(reset, noted).findings
    ]


RESET = plan(step(Change(ORDERS, AT_10, AT_20)))
MADE = plan(step(Change(ORDERS, None, AT_10), state=None), intent=Intent.COPY)
DELETED = plan(step(Change(ORDERS, AT_10, None), action=Action.DELETE_GROUP))


@pytest.mark.parametrize(("done", "before"), [(RESET, AT_10), (MADE, None)], ids=["moved", "added"])
def test_an_offset_that_moved_on_goes_back_where_that_is_wanted(
    done: Plan, before: Position | None
) -> None:
    """With `restore`, the state before the run replaces whatever was committed after it."""
    undo = plan_undo(done, facts_of({"g": {ORDERS: AT_30}}), moved=IfMoved.RESTORE)

    (change,) = changes(undo)
    assert (AT_30, before, ()) == (change.before, change.after, undo.findings)


def test_a_deleted_group_is_restored_as_a_simple_group() -> None:
    """Its commits create it, and a note says that its offsets expire by another timer."""
    gone = Change(ORDERS, AT_10, None), Change(PAYMENTS, AT_20, None)
    deletion = plan(step(*gone, action=Action.DELETE_GROUP), intent=Intent.DELETE_GROUPS)
    undo = plan_undo(deletion, facts_of({}))

    (back,) = undo.steps
    assert (Action.COMMIT, True, 2) == (back.action, back.creates, len(back.changes))
    assert [("comes-back-simple", "note")] == rules(undo)
    assert {"new-group"} == undo.allows
    more = snapshot(logs=dict.fromkeys((ORDERS, ORDERS._replace(partition=7)), (0, 40)))
    (_, lacks) = plan_undo(deletion, more).findings
    assert lacks.why.startswith("no committed offset for orders:7: none is committed")


def cluster(positions: dict[TopicPartition, Position] | None = None, **changed: Any) -> Snapshot:
    """Return facts in which group g has committed these positions, or does not exist."""
    return replace(facts_of({"g": positions} if positions else {}), **changed)


def of_topic(done: Plan, topic_id: str) -> Plan:
    return replace(done, topic_ids={"orders": topic_id})


RESCUED = plan(step(Change(ORDERS, AT_10, AT_10)), intent=Intent.RESCUE)
ADDED = plan(step(Change(ORDERS, None, AT_20)))
MOVED_AND_ADDED = plan(step(Change(ORDERS, AT_10, AT_20), Change(PAYMENTS, None, AT_20)))
READS_ORDERS, READS_PAYMENTS = ((live("g", member(topic)),) for topic in ("orders", "payments"))
NOTHING_TO_UNDO, COMES_BACK = [("nothing-to-undo", "note")], [("comes-back-simple", "note")]
UNREADABLE = [("unreadable", "block")]
UNREAD, UNREAD_PAYMENTS = (
    (Problem(Unread.COMMIT, "denied", "g", *place),) for place in (ORDERS, PAYMENTS)
)
UNLISTED = (Problem(Unread.GROUPS, "those coordinated by broker 1: no answer"),)
NO_TOPIC = (Problem(Unread.LOG_OFFSETS, "the topic does not exist", None, "orders"),)
NO_GROUP = (Problem(Unread.GROUP, "no group matches this name", "g"),)
COMMITS, DROPS = (Action.COMMIT, ORDERS), (Action.DELETE_OFFSETS, ORDERS)
STILL_AT_10 = cluster({ORDERS: AT_10})
# The plan, what there is now, the findings, words of their reasons, and the steps of the undo.
UNDONE = {
    "a group without offsets cannot be made": (
        *(plan(step(action=Action.DELETE_GROUP)), cluster(), [("cannot-come-back", "note")]),
        *("", []),
    ),
    "a clock cannot be turned back": (
        *(RESCUED, STILL_AT_10, NOTHING_TO_UNDO, "no committed offset was changed", []),
    ),
    "undone already": (
        *(RESET, STILL_AT_10, NOTHING_TO_UNDO, "everything is already as before the run", []),
    ),
    # The broker would refuse to delete the offset of a topic that a member subscribes to.
    "subscribed": (
        *(ADDED, cluster({ORDERS: AT_20}, groups=READS_ORDERS), [("subscribed", "block")], "", []),
    ),
    # Commits are blocked by members; offsets of unsubscribed topics are deleted while it runs.
    "live": (
        *(MOVED_AND_ADDED, cluster({ORDERS: AT_20, PAYMENTS: AT_20}, groups=READS_ORDERS)),
        *([("group-live", "block")], "", [COMMITS, (Action.DELETE_OFFSETS, PAYMENTS)]),
    ),
    # A group that was made stays where others may need it; only what the plan wrote is removed.
    "used since": (MADE, cluster({ORDERS: AT_10, PAYMENTS: AT_20}), [], "", [DROPS]),
    "perhaps used": (MADE, cluster({ORDERS: AT_10}, problems=UNREAD_PAYMENTS), [], "", [DROPS]),
    "has members": (MADE, cluster({ORDERS: AT_10}, groups=READS_PAYMENTS), [], "", [DROPS]),
    # An offset, topic or group that could not be read is not taken for a missing one.
    "commit unread": (DELETED, cluster(problems=UNREAD), UNREADABLE, "", []),
    "topic missing": (
        DELETED,
        cluster(problems=NO_TOPIC),
        [("missing-partition", "block")],
        "",
        [],
    ),
    "not all groups listed": (DELETED, cluster(problems=UNLISTED), UNREADABLE, "", []),
    "group missing": (DELETED, cluster(problems=NO_GROUP), COMES_BACK, "", [COMMITS]),
    # Nothing tells that a topic is another one where an id is not known.
    "id unknown then": (DELETED, cluster(topic_ids={"orders": "id2"}), COMES_BACK, "", [COMMITS]),
    "id unknown now": (of_topic(DELETED, "id1"), cluster(), COMES_BACK, "", [COMMITS]),
}


@pytest.mark.parametrize(("done", "now", "found", "says", "steps"), UNDONE.values(), ids=UNDONE)
def test_the_plan_of_an_undo(
    done: Plan,
    now: Snapshot,
    found: list[tuple[str, str]],
    says: str,
    steps: list[tuple[Action, TopicPartition]],
) -> None:
    """A step restores what can be restored, and a finding names the rest."""
    undo = plan_undo(done, now)

    assert found == rules(undo)
    assert says in "".join(finding.why for finding in undo.findings)
    assert steps == [(one.action, *(c.partition for c in one.changes)) for one in undo.steps]


RENAME = plan(
    step(Change(ORDERS, None, AT_10), group_id="new", state=None),
    step(Change(ORDERS, AT_10, None), action=Action.DELETE_GROUP, group_id="old", needs="new"),
    intent=Intent.RENAME,
)


def renamed(old: str) -> Plan:
    made, gone = RENAME.steps
    return replace(RENAME, steps=(made, replace(gone, group_id=old)))


@pytest.mark.parametrize(("old", "shown"), [("old", "old"), ("", '""')])
def test_a_rename_is_undone_backwards(old: str, shown: str) -> None:
    """The old group is back before the new one goes, or both stay; so for undoing the undo."""
    done = renamed(old)
    undo = plan_undo(done, facts_of({"new": {ORDERS: AT_10}}))
    again = plan_undo(undo, facts_of({old: {ORDERS: AT_10}}))
    taken = plan_undo(done, facts_of({"new": {ORDERS: AT_10}, old: {ORDERS: AT_30}}))

    assert [(Action.COMMIT, old, None), (Action.DELETE_GROUP, "new", old)] == [
        (one.action, one.group_id, one.needs) for one in undo.steps
    ]
    assert [(Action.COMMIT, "new", None), (Action.DELETE_GROUP, old, "new")] == [
        (one.action, one.group_id, one.needs) for one in again.steps
    ]
    # Otherwise the offsets of the old group would be nowhere.
    assert ((), [("moved-since", "block"), ("kept", "note")]) == (taken.steps, rules(taken))
    assert f"kept, because {shown} cannot be restored" == taken.findings[-1].why


SEVERAL = plan(*(step(Change(ORDERS, AT_10, AT_20), group_id=name) for name in "abc"))


@pytest.mark.parametrize(
    ("done", "names", "meant"),
    [
        (SEVERAL, [], ["a", "b", "c"]),
        (SEVERAL, ["b"], ["b"]),
        (SEVERAL, ["c", "[ab]"], ["a", "b", "c"]),
        # One of a renamed pair alone would leave its offsets under both names, or under none.
        (RENAME, ["old"], ["new", "old"]),
        (RENAME, ["new"], ["new", "old"]),
        (plan(), ["a"], []),
    ],
)
def test_some_groups_of_a_run_are_undone(done: Plan, names: list[str], meant: list[str]) -> None:
    """They are named, or match a pattern, and are undone together with what they depend on."""
    assert meant == [*of_groups(done, names).group_ids]


def test_a_group_that_is_not_of_the_run_is_an_error() -> None:
    """Nothing would be undone for a name that is misspelt, and it would look like success."""
    with pytest.raises(UsageError, match=r"^the run changed no group d e\*\.") as caught:
        of_groups(SEVERAL, ["a", "d", "e*"])

    assert "it changed a b c" == caught.value.hint


def test_groups_that_block_an_undo_can_be_left_out() -> None:
    """The hint says how, and then the other groups are undone."""
    now = facts_of({name: {ORDERS: AT_30 if name == "b" else AT_20} for name in "abc"})
    undo, others = plan_undo(SEVERAL, now), plan_undo(of_groups(SEVERAL, ["a", "c"]), now)

    assert [("moved-since", "block"), ("undo-others", "note")] == rules(undo)
    way = "To undo only the others, name them with --group, or groups in a notebook: a c"
    assert f"blocked for b. {way}" == undo.findings[-1].why
    assert (("c", "a"), ()) == (others.group_ids, others.findings)

    names = [f"g{number}" for number in range(9)]
    many = replace(SEVERAL, steps=tuple(replace(SEVERAL.steps[0], group_id=g) for g in names))
    now = facts_of({g: {ORDERS: AT_30 if g == "g3" else AT_20} for g in names})
    others = " ".join(g for g in names if g != "g3")
    assert plan_undo(many, now).findings[-1].why.endswith(f": {others}")


def test_an_undo_is_for_the_cluster_of_its_plan() -> None:
    """Facts of another cluster do not make it a plan for that one; no topic is the same there."""
    other = cluster(cluster="us", cluster_id="other", topic_ids={"orders": "id2"})
    undo = plan_undo(of_topic(RENAME, "id1"), other)

    assert ("eu", "id") == (undo.cluster, undo.cluster_id)
    assert ["comes-back-simple"] == [finding.rule for finding in undo.findings]


def test_an_offset_outside_the_log_is_restored_with_a_note() -> None:
    """An undo is exact, even if retention has overtaken the offset."""
    undo = plan_undo(DELETED, snapshot(logs={ORDERS: (15, 40)}))

    why = "as it was before; offset 10 is out of range: log start offset 15, log end offset 40"
    assert [Change(ORDERS, None, AT_10, why)] == changes(undo)


def test_offsets_of_a_topic_that_was_recreated_block() -> None:
    """One finding for each topic; the offsets stay in the plan."""
    gone = [Change(TopicPartition("orders", n), AT_10, None) for n in range(2)]
    gone.append(Change(PAYMENTS, AT_20, None))
    deleted = plan(step(*gone, action=Action.DELETE_OFFSETS))
    done = replace(deleted, topic_ids={"orders": "id1", "payments": "id2"})
    now = replace(facts_of({"g": {}}), topic_ids={"orders": "id3", "payments": "id2", "audit": ""})
    undo = plan_undo(done, now)

    found = [(f.rule, f.group_id, f.topic) for f in undo.findings]
    assert [("topic-recreated", "g", "orders")] == found
    assert 3 == len(changes(undo))
    assert {"orders": "id3", "payments": "id2"} == undo.topic_ids
    restored = facts_of(apply_to({}, undo))
    assert () == plan_undo(undo, replace(now, commits=restored.commits)).findings

    # What a plan added goes away again, whichever topic has the name now.
    facts = cluster({ORDERS: AT_10}, topic_ids={"orders": "id2"})
    assert () == plan_undo(of_topic(MADE, "id1"), facts).findings


def test_a_rename_is_undone_in_order_where_a_topic_was_recreated() -> None:
    """An override lets both steps through, in their order."""
    steps = tuple(
        replace(one, changes=(*one.changes, one.changes[0]._replace(partition=PAYMENTS)))
        for one in RENAME.steps
    )
    done = of_topic(replace(RENAME, steps=steps), "id1")
    # The broker dropped what was committed of the topic that was deleted.
    undo = plan_undo(done, replace(facts_of({"new": {PAYMENTS: AT_10}}), topic_ids={"orders": "x"}))

    assert [("old", None), ("new", "old")] == [(one.group_id, one.needs) for one in undo.steps]
    assert ["comes-back-simple", "topic-recreated"] == sorted(f.rule for f in undo.findings)


@pytest.mark.parametrize(
    ("by", "found"), [(ALICE, []), (("bob", "desk"), [("foreign-hold", "block")])]
)
def test_the_undo_of_a_pause_does_not_resume_other_holds(
    by: tuple[str, str], found: list[tuple[str, str]]
) -> None:
    """The pause may have ended, and another one begun."""
    done = plan_pause(paused_groups.facts(group()), group="g", topics=["orders:0"])
    now = paused_groups.facts(group(reader("a", 1), reader("b", 2, 3), holder(0)))
    undo = plan_undo(done, now, by=by)

    assert (Intent.RESUME, found) == (undo.intent, rules(undo))
    assert [Action.RELEASE] == [one.action for one in undo.steps]


def test_first_commits_of_a_pause_are_deleted_once_the_group_has_stopped() -> None:
    """A live group's offsets of subscribed topics cannot be deleted, which is noted."""
    never = without_commits(paused_groups.facts(group()), 0)
    terms = HoldTerms(commit_missing="latest")
    done = plan_pause(never, group="g", topics=["orders:0"], terms=terms)
    paused = group(reader("a", 1), reader("b", 2, 3), holder(0))
    committed = paused_groups.facts(paused, committed=20)
    while_live = plan_undo(done, committed)
    stopped = plan_undo(done, replace(committed, groups=(idle(),)))

    assert [Action.RELEASE] == [one.action for one in while_live.steps]
    assert "stays-committed" in notes(while_live)
    assert [(Action.DELETE_OFFSETS, 0)] == [
        (one.action, change.partition.partition) for one, change in stopped.changes
    ]
    # Where the pause itself failed, nothing of it is resumed, whatever else is paused.
    failed = replace(done, steps=done.steps[:1])
    others = group(reader("a", 0), reader("b", 2, 3), holder(1))
    while_live = plan_undo(failed, paused_groups.facts(others, committed=20), by=ALICE)
    assert ((), ["stays-committed"]) == (while_live.steps, notes(while_live))
    assert stopped.steps == plan_undo(failed, replace(committed, groups=(idle(),))).steps
