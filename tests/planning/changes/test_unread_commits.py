"""A group whose committed offsets could not be read is not taken for one without any."""

from collections.abc import Callable
from dataclasses import replace

import held
import pytest
from facts import NOON, idle, live, member, snapshot
from guardrail_cases import ORDERS, plan, step

from toolkit.errors import BrokerRefused, NotFound
from toolkit.model import Commit, Group, Problem, Snapshot, Unread
from toolkit.plan import Action, Change, Plan, Position, Severity
from toolkit.plan.saved_offsets import SavedOffsets
from toolkit.planning.changes.copy import plan_copy, plan_rename
from toolkit.planning.changes.delete_groups import plan_delete_groups
from toolkit.planning.changes.delete_offsets import plan_delete_offsets, plan_delete_unsubscribed
from toolkit.planning.changes.pause import plan_pause
from toolkit.planning.changes.rescue import plan_rescue
from toolkit.planning.changes.reset import may_have_committed, plan_reset
from toolkit.planning.changes.restore import plan_restore
from toolkit.planning.changes.targets import ToOffset, from_group
from toolkit.planning.changes.undo import IfMoved, plan_undo
from toolkit.planning.holds.hold_context import HoldTerms
from toolkit.planning.selection.findings import unread
from toolkit.report.lag_report import LagReport

TIMED_OUT = Problem(Unread.COMMITS, "no answer within 3 s", "g")
AT_7 = Position(7)
MOVED = plan(step(Change(ORDERS, Position(2), AT_7)))
MADE = plan(step(Change(ORDERS, None, AT_7)))
REMOVED = plan(step(Change(ORDERS, AT_7, None), action=Action.DELETE_OFFSETS))
IDLE, LIVE = idle(), live("g", member("payments"))
READS, COMMITS_FIRST = held.group(), HoldTerms(commit_missing="earliest")
SAVED = SavedOffsets((Commit("g", *ORDERS, 7),), cluster="eu", cluster_id="id", taken_at=NOON)
Planner = Callable[[Snapshot], Plan]
PLANNERS: dict[str, tuple[Group, Planner]] = {
    "reset": (IDLE, lambda here: plan_reset(here, ToOffset(2), groups=["g"])),
    "reset of a topic": (
        *(IDLE, lambda here: plan_reset(here, ToOffset(2), groups=["g"], topics=["orders"])),
    ),
    "delete groups": (IDLE, lambda here: plan_delete_groups(here, groups=["g"])),
    "delete offsets": (
        *(IDLE, lambda here: plan_delete_offsets(here, groups=["g"], topics=["orders"])),
    ),
    "delete all offsets": (
        *(IDLE, lambda here: plan_delete_offsets(here, groups=["g"], all_topics=True)),
    ),
    "delete unsubscribed": (LIVE, lambda here: plan_delete_unsubscribed(here, groups=["g"])),
    "copy": (IDLE, lambda here: plan_copy(here, source="g", target="new")),
    "rename": (IDLE, lambda here: plan_rename(here, source="g", target="new")),
    "restore": (IDLE, lambda here: plan_restore(here, SAVED)),
    "rescue": (IDLE, lambda here: plan_rescue(here, groups=["g"])),
    "pause": (READS, lambda here: plan_pause(here, group="g", topics=["orders"])),
    "pause that commits first": (
        *(READS, lambda here: plan_pause(here, group="g", topics=["orders"], terms=COMMITS_FIRST)),
    ),
    "undo": (IDLE, lambda here: plan_undo(MOVED, here)),
    "undo of a new offset": (IDLE, lambda here: plan_undo(MADE, here)),
    "undo of a deletion": (IDLE, lambda here: plan_undo(REMOVED, here)),
    "undo, whatever moved": (IDLE, lambda here: plan_undo(MOVED, here, moved=IfMoved.RESTORE)),
}


@pytest.mark.parametrize(("about", "planner"), PLANNERS.values(), ids=PLANNERS)
def test_unread_is_not_uncommitted(about: Group, planner: Planner) -> None:
    """No planner says that nothing is committed, or changes anything: it says what was not read."""
    here = replace(snapshot(about, logs={ORDERS: (0, 10)}), problems=(TIMED_OUT,))

    made = planner(here)

    told = [(found.rule, found.why) for found in made.findings]
    assert ("unreadable", "committed offsets could not be read: no answer within 3 s") in told
    assert not {"no-commit", "moved-since", "nothing-to-undo"} & {rule for rule, _ in told}, told
    assert () == made.steps


@pytest.mark.parametrize("terms", [HoldTerms(), COMMITS_FIRST], ids=["plain", "commits first"])
def test_a_pause_commits_nothing_over_an_unread_offset(terms: HoldTerms) -> None:
    """One partition whose offset could not be read blocks by that reason alone."""
    denied = Problem(Unread.COMMIT, "denied", "g", *ORDERS)
    here = replace(held.without_commits(held.facts(READS), 0), problems=(denied,))

    made = plan_pause(here, group="g", topics=["orders:0"], terms=terms)

    blocking = [found for found in made.findings if found.severity is Severity.BLOCK]
    assert [unread(denied)] == blocking
    assert [Action.HOLD] == [one.action for one in made.steps]


@pytest.mark.parametrize("unread", [TIMED_OUT, Problem(Unread.COMMIT, "denied", "g", *ORDERS)])
def test_a_reset_to_the_offsets_of_a_group_needs_all_of_them(unread: Problem) -> None:
    """What was read of the group is not all that it has committed."""
    here = replace(held.facts(READS), problems=(unread,))

    with pytest.raises(BrokerRefused, match=f"offsets of group g could not be read: {unread.why}"):
        from_group(here, "g", source="from-group g")
    with pytest.raises(NotFound, match="group other has no committed offsets"):
        from_group(here, "other", source="from-group other")
    missing = Problem(Unread.GROUP, "no group matches this name", "othr")
    here = replace(here, problems=(missing,), listed=frozenset({"g", "other"}))
    with pytest.raises(NotFound, match=r"group othr .*no group matches .*did you mean other"):
        from_group(here, "othr", source="from-group othr")


def test_all_groups_that_may_have_committed_to_a_topic() -> None:
    """Among all groups, one whose offsets could not be read may be meant too."""
    on_orders, on_audit = (
        Problem(Unread.COMMIT, "denied", topic, topic, 0) for topic in ("orders", "audit")
    )
    here = replace(held.facts(READS), problems=(replace(TIMED_OUT, group_id="unread"), on_orders))

    assert {"g", "unread", "orders"} == may_have_committed(here, {"orders"})
    here = replace(here, problems=(on_audit,))
    assert {"g"} == may_have_committed(here, {"orders"})


@pytest.mark.parametrize(
    "unread",
    [
        TIMED_OUT,
        Problem(Unread.COMMIT, "denied", "g", "old", 0),
        Problem(Unread.HIDDEN_COMMITS, "an ACL is missing"),
    ],
)
def test_a_rescue_does_not_call_unread_offsets_safe(unread: Problem) -> None:
    """Of a live group, those of topics that it has left expire: they may be the unread ones."""
    on_orders = snapshot(LIVE, commits=[Commit("g", "payments", 0, 7)])
    for here in (on_orders, replace(on_orders, commits=())):
        made = plan_rescue(replace(here, problems=(unread,)), groups=["g"])

        why = f"unknown which offsets may expire: {unread.why}"
        assert [("incomplete", why)] == [(f.rule, f.why) for f in made.findings]


def test_hidden_offsets_are_no_missing_ones() -> None:
    """A target from a group of which ACLs may hide everything is refused, and not called empty."""
    here = replace(snapshot(IDLE), problems=(Problem(Unread.HIDDEN_COMMITS, "an ACL is missing"),))

    with pytest.raises(BrokerRefused, match="an ACL is missing"):
        from_group(here, "g", source="from-group g")
    assert () == LagReport(here).without_offsets
    assert ("g",) == LagReport(replace(here, problems=())).without_offsets


def test_a_group_of_which_nothing_could_be_read_is_not_passed_over() -> None:
    """Its members and offsets are unknown, so it may have unsubscribed ones."""
    unread = replace(live("g"), members=(), described=False)
    here = replace(snapshot(unread), problems=(TIMED_OUT,))

    (told,) = plan_delete_unsubscribed(here, groups=["*"]).findings

    assert ("incomplete", "g") == (told.rule, told.group_id)
    assert "its committed offsets could not be read: no answer within 3 s" in told.why
