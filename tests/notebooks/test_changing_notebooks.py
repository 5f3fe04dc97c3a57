"""The notebooks that change something, on a real broker: each is run without a head once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from desks import Held
from IPython.core.interactiveshell import InteractiveShell
from rooms import NOTEBOOKS, Room, report, shown_command
from shells import open_in

from toolkit.errors import UsageError
from toolkit.model import GroupState, GroupType, TopicPartition
from toolkit.plan import Action, Change, Intent, Plan, Position, Step
from toolkit.runner.parameters import read_parameters
from toolkit.storage import audit
from toolkit.storage.plan_files import write_plan

HOSTILE = "<img src=x onerror=alert(1)>"
TOO_LONG = "x" * 5000  # brokers take 4096 bytes of metadata
DONE, BLOCKED = ("done", 0), ("blocked", 3)


def at(held: Held, offset: int) -> Held:
    """Return what groups hold at another offset, beside which there is no metadata."""
    return {
        group: {p: Position(offset, position.leader_epoch) for p, position in positions.items()}
        for group, positions in held.items()
    }


STANDING = {
    "dry_run": False,
    "approve": "within limits",
    "limits": ["max_groups=1", "max_partitions=2", "max_records_repeated=10"],
}
SAFE = {"dry_run": True, "approve": "", "overrides": [], "limits": []}


@pytest.mark.parametrize(
    ("number", "more"),
    [(30, {"rescue": False}), (40, {"pause_for": "30m"}), *((n, {}) for n in (50, 52, 60, 61, 70))],
)
def test_it_is_a_dry_run_until_told_otherwise(number: int, more: dict[str, Any]) -> None:
    """As it comes no notebook changes anything, and no rule is passed over; a pause has an end."""
    (path,) = NOTEBOOKS.glob(f"{number}_*.ipynb")
    defaults = {p.name: p.default for p in read_parameters(path)}

    assert SAFE | more == {name: defaults[name] for name in SAFE | more}


def test_a_reset_from_dry_run_to_undo(room: Room) -> None:
    """The dry run changes nothing and shows a command that does it; an undo puts all back."""
    group = room.group(HOSTILE)
    before = room.desk.held(group)

    dry = room.run("50_reset_offsets", groups=[group], mode="to-offset", value="2")

    assert ("done", 0, {"findings": 0, "planned": 2}) == (dry.status, dry.exit_code, dry.counts)
    assert dry.summary.startswith("Dry run: nothing was changed.")
    assert (before, []) == (room.desk.held(group), room.desk.log)
    assert "Dry run: nothing was changed</span>" in report(dry)
    assert HOSTILE not in report(dry)

    done = room.invoke(shown_command(report(dry)), "a test")

    assert ("done", at(before, 2)) == (done["status"], room.desk.held(group))
    assert {"findings": 0, "planned": 2, "changed": 2, "refused": 0} == done["counts"]
    assert ["a test"] == [entry.run.reason for entry in room.desk.log[:1]]

    undone = room.cells(
        "70_undo",
        run=done["undo"],
        dry_run=False,
        approve="within limits",
        reason="a mistake",
        limits=["max_groups=1", "max_partitions=2"],
    )

    assert (DONE, before) == (undone.ended, room.desk.held(group))
    assert undone.conclusion.undo not in {None, done["undo"]}


def test_a_run_is_selected_and_undone_by_hand(shell: InteractiveShell, room: Room) -> None:
    """Without a run the undo stops at one sentence, under all runs; one is selected and undone."""
    group, other = room.group(), room.group("billing")
    before = room.desk.held(group)
    for name in (group, other):
        wanted = {"groups": [name], "mode": "to-offset", "value": "3", "reason": f"of {name}"}
        room.cells("50_reset_offsets", **wanted, **STANDING)
    told = room.cells("70_undo")
    assert ("failed", 2) == told.ended
    assert "no run selected. Try: select one above, or set the parameter run" == told.why
    assert [group, other] == [name for name in (group, other) if name in told.shown]

    notebook = open_in(shell, room, "70_undo", overrides=["keeps-committing"])
    assert isinstance(notebook.run_all(), UsageError)
    picker = notebook["picker"]
    assert picker.view
    picker.search.value = f"of {group}"
    picker.listing.index = 0
    for cell in [*notebook.cells][2:]:
        assert notebook.run(cell) is None
    card = notebook["decision"].review()
    card.reason.value, card.confirmation_input.value = "a mistake", group
    card.approve()
    assert card.background.wait(60)

    assert (before, {3}) == (
        room.desk.held(group),
        {at.offset for at in room.desk.held(other)[other].values()},
    )


def test_another_plans_fingerprint_approves_nothing(room: Room) -> None:
    """An approval that names another plan is blocked with exit code 3, and nothing is recorded."""
    group = room.group()
    before = room.desk.held(group)
    approval = {"dry_run": False, "approve": "0123456789abcdef", "reason": "a test"}

    result = room.cells("50_reset_offsets", groups=[group], mode="to-earliest", **approval)

    assert (BLOCKED, None) == (result.ended, result.conclusion.undo)
    assert "the approval is for plan 0123456789abcdef" in result.conclusion.summary
    assert (before, []) == (room.desk.held(group), room.desk.log)


def test_a_live_group_is_not_reset(room: Room) -> None:
    """A group with members blocks the plan with exit code 3, and its member is named."""
    group = room.group()
    (topic, _), *_ = room.desk.held(group)[group]
    room.apps.join(group, [topic])

    result = room.cells("50_reset_offsets", groups=[group], mode="to-earliest")

    assert BLOCKED == result.ended
    assert "Blocked by group-live: nothing was changed." in result.conclusion.summary
    assert f"{group}-client" in result.shown


@pytest.mark.parametrize(
    ("refused", "ending"), [((1,), ("partly-applied", 4)), ((0, 1), ("failed", 1))]
)
def test_what_a_broker_refuses(
    room: Room, refused: tuple[int, ...], ending: tuple[str, int]
) -> None:
    """Where a part is done the exit code is 4 and can be undone; where nothing is, it is 1."""
    group = room.group()
    (step,) = room.desk.reset(group).steps
    changes = [
        c._replace(after=Position(0, None, TOO_LONG)) if c.partition.partition in refused else c
        for c in step.changes
    ]
    plan = replace(room.desk.reset(group), steps=(replace(step, changes=tuple(changes)),))
    write_plan(room.folder / "plan.json", plan)

    approval = {"dry_run": False, "approve": plan.fingerprint, "reason": "a test"}
    plan_file = str(room.folder / "plan.json")
    result = room.cells("50_reset_offsets", plan_file=plan_file, **approval)
    counts = result.conclusion.counts

    assert ending == result.ended
    assert (2 - len(refused), len(refused)) == (counts["changed"], counts["refused"])
    assert (result.conclusion.undo is not None) == (len(refused) == 1)
    assert "code 12" in result.shown


def test_offsets_that_a_live_group_left_are_deleted(room: Room) -> None:
    """Only what no member subscribes to goes; more than the limits allow is not touched."""
    group = room.group()
    before = room.desk.held(group)
    read = room.apps.create_topic(room.apps.name("read"))
    room.apps.commit(group, {TopicPartition(read, 0): 0})
    room.apps.join(group, [read])
    standing = {"dry_run": False, "approve": "within limits", "reason": "nightly"}

    limits = ["max_groups=1", "max_partitions=1"]
    over = room.cells("60_delete_offsets", groups=[group], **standing, limits=limits)

    assert BLOCKED == over.ended
    assert "too-many-partitions" in over.why
    assert {*before[group], (read, 0)} == set(room.desk.held(group)[group])

    limits = ["max_groups=1", "max_partitions=2"]
    done = room.run("60_delete_offsets", groups=[group], **standing, limits=limits)

    assert ("done", 2) == (done.status, done.counts["changed"])
    assert {(read, 0)} == set(room.desk.held(group)[group])


def test_a_deleted_group_comes_back(room: Room) -> None:
    """A group is deleted as its dry run showed it, and the undo brings back all it committed."""
    group = room.group()
    before = room.desk.held(group)

    dry = room.cells("61_delete_groups", groups=[group])

    assert (DONE, before) == (dry.ended, room.desk.held(group))
    done = room.invoke(shown_command(dry.shown), "a test")
    assert ("done", {}) == (done["status"], room.desk.held(group))

    dry = room.cells("70_undo", run=done["undo"][:-4])
    assert (DONE, {}) == (dry.ended, room.desk.held(group))
    undone = room.invoke(shown_command(dry.shown), "a mistake")
    assert ("done", before) == (undone["status"], room.desk.held(group))


def test_an_age_that_is_not_known_deletes_nothing(room: Room) -> None:
    """With an age, a group that was used a moment ago is left out, and there is nothing to do."""
    group = room.group()

    result = room.cells("61_delete_groups", groups=[group], empty_for="1d", dry_run=False)

    assert DONE == result.ended
    assert result.conclusion.summary.startswith("Nothing to do.")
    assert "too-young" in result.shown


@pytest.fixture
def log(room: Room) -> Path:
    """Return the audit log of a room: two runs without an outcome."""
    change = Change(TopicPartition("orders", 0), Position(7), None)
    step = Step(HOSTILE, Action.DELETE_OFFSETS, (change,), GroupType.SIMPLE, GroupState.EMPTY)
    now = datetime.now(UTC)
    plan = Plan(Intent.DELETE_OFFSETS, "delete offsets", "eu", "c1", now, (step,))
    for name, overrides in (("run-1", ("last-offsets",)), ("run-2", ())):
        run = audit.RunInfo(name, "alice", "desk", f"why {name}", overrides)
        audit.append(room.desk.state, audit.intent_entry(plan, run, now))
    return room.desk.state / "audit.jsonl"


def test_the_review_finds_what_did_not_end(room: Room, log: Path) -> None:
    """Runs without an outcome and overridden rules are findings; a torn line is no tampering."""
    with log.open("ab") as file:
        file.write(b'{"seq": 3, "at": "')  # what a killed writer leaves
    result = room.run("80_audit_review", cluster="eu", groups=[HOSTILE])

    assert ("done", {"findings": 3, "problems": 0}) == (result.status, result.counts)
    assert "2 interrupted, 1 with overrides; audit log intact" in result.summary
    for words in ("last-offsets", "why run-2", "alice", "is incomplete"):
        assert words in report(result)
    assert HOSTILE not in report(result)


def test_the_review_finds_a_changed_line(room: Room, log: Path) -> None:
    """A log that was changed is not called done: it is told which line it is."""
    log.write_text(log.read_text().replace("why run-1", "why not"))

    result = room.cells("80_audit_review", cluster="")

    assert ("incomplete", 4) == result.ended
    assert "line 1 was changed" in result.shown
