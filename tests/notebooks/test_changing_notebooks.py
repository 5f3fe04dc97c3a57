"""The notebooks that change something, on a real broker: each is run without a head once."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from operators import Held
from plans_of_groups import with_long_metadata
from shells import open_in
from workspaces import NOTEBOOKS, Workspace, report, shown_command

from toolkit.errors import UsageError
from toolkit.model import GroupState, GroupType, TopicPartition
from toolkit.plan import Action, Change, Intent, Plan, Position, Step
from toolkit.runner.parameters import read_parameters
from toolkit.storage import audit
from toolkit.storage.plan_files import write_plan

HOSTILE = "<img src=x onerror=alert(1)>"
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
def test_it_is_a_dry_run_by_default(number: int, more: dict[str, Any]) -> None:
    """No notebook changes anything or overrides a rule by default; a pause has an end."""
    (path,) = NOTEBOOKS.glob(f"{number}_*.ipynb")
    defaults = {p.name: p.default for p in read_parameters(path)}

    assert SAFE | more == {name: defaults[name] for name in SAFE | more}


def test_a_reset_from_dry_run_to_undo(workspace: Workspace) -> None:
    """The dry run changes nothing and shows a command that does it; an undo puts all back."""
    group = workspace.group(HOSTILE)
    before = workspace.operator.held(group)

    dry = workspace.run("50_reset_offsets", groups=[group], mode="to-offset", value="2")

    assert ("done", 0, {"findings": 0, "planned": 2, "changed": 0}) == (
        dry.status,
        dry.exit_code,
        dry.counts,
    )
    assert dry.summary.startswith("Dry run: nothing was changed.")
    assert (before, []) == (workspace.operator.held(group), workspace.operator.log)
    assert "Dry run: nothing was changed</span>" in report(dry)
    assert HOSTILE not in report(dry)

    done = workspace.invoke(shown_command(report(dry)), "a test")

    assert ("done", at(before, 2)) == (done["status"], workspace.operator.held(group))
    assert {"findings": 0, "planned": 2, "changed": 2, "refused": 0} == done["counts"]
    assert ["a test"] == [entry.run.reason for entry in workspace.operator.log[:1]]

    undone = workspace.cells(
        "70_undo",
        run=done["undo"],
        dry_run=False,
        approve="within limits",
        reason="a mistake",
        limits=["max_groups=1", "max_partitions=2"],
    )

    assert (DONE, before) == (undone.ended, workspace.operator.held(group))
    assert undone.conclusion.undo not in {None, done["undo"]}


def test_a_run_is_selected_and_undone_by_hand(
    shell: InteractiveShell, workspace: Workspace
) -> None:
    """Without a run the undo stops at one sentence, under all runs; one is selected and undone."""
    group, other = workspace.group(), workspace.group("billing")
    before = workspace.operator.held(group)
    for name in (group, other):
        wanted = {"groups": [name], "mode": "to-offset", "value": "3", "reason": f"of {name}"}
        workspace.cells("50_reset_offsets", **wanted, **STANDING)
    told = workspace.cells("70_undo")
    assert ("failed", 2) == told.ended
    assert "no run selected. Try: select one above, or set the parameter run" == told.why
    assert [group, other] == [name for name in (group, other) if name in told.shown]

    notebook = open_in(shell, workspace, "70_undo", overrides=["keeps-committing"])
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
        workspace.operator.held(group),
        {at.offset for at in workspace.operator.held(other)[other].values()},
    )


def test_the_parameter_is_undone_and_not_the_run_that_was_selected_before(
    shell: InteractiveShell, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run in the parameters is planned by Run All, whatever was selected; that is out of date."""
    monkeypatch.setattr("widgets.pickers.running_cell", lambda: ("cell-4", ""))
    group, other = workspace.group(), workspace.group("billing")
    for name in (group, other):
        wanted = {"groups": [name], "mode": "to-offset", "value": "3", "reason": f"of {name}"}
        workspace.cells("50_reset_offsets", **wanted, **STANDING)
    notebook = open_in(shell, workspace, "70_undo")
    assert isinstance(notebook.run_all(), UsageError)
    picker, (newest, first) = notebook["picker"], notebook["runs"]["run"]
    assert picker.view
    picker.listing.index = 1
    assert notebook.run_all() is None
    selected = notebook["change"]
    assert first in selected.plan.request
    again = notebook["picker"]
    assert again.view
    again.listing.index = 0
    assert "another run was selected" == selected.inputs.outdated

    assert notebook.run_all(f"{notebook.cells['02-parameters']}\nrun = {first!r}") is None

    assert (first, newest) == (notebook["run"], again.picked)
    assert first in notebook["change"].plan.request


def test_another_plans_fingerprint_approves_nothing(workspace: Workspace) -> None:
    """An approval that names another plan is blocked with exit code 3, and nothing is recorded."""
    group = workspace.group()
    before = workspace.operator.held(group)
    approval = {"dry_run": False, "approve": "0123456789abcdef", "reason": "a test"}

    result = workspace.cells("50_reset_offsets", groups=[group], mode="to-earliest", **approval)

    assert (BLOCKED, None) == (result.ended, result.conclusion.undo)
    assert "the approval is for plan 0123456789abcdef" in result.conclusion.summary
    assert (before, []) == (workspace.operator.held(group), workspace.operator.log)


@pytest.mark.parametrize(("refused", "ending"), [(1, ("partly-applied", 4)), (2, ("failed", 1))])
def test_a_refusal_of_a_broker(workspace: Workspace, refused: int, ending: tuple[str, int]) -> None:
    """If a part is done, the exit code is 4 and undo works; if nothing is, it is 1."""
    group = workspace.group()
    places = sorted(workspace.operator.held(group)[group])
    plan = with_long_metadata(workspace.operator.reset(group), *places[:refused])
    write_plan(workspace.folder / "plan.json", plan)

    approval = {"dry_run": False, "approve": plan.fingerprint, "reason": "a test"}
    plan_file = str(workspace.folder / "plan.json")
    result = workspace.cells("50_reset_offsets", plan_file=plan_file, **approval)
    counts = result.conclusion.counts

    assert ending == result.ended
    assert (2 - refused, refused) == (counts["changed"], counts["refused"])
    assert (result.conclusion.undo is not None) == (refused == 1)
    assert "code 12" in result.shown


def test_offsets_that_a_live_group_left_are_deleted(workspace: Workspace) -> None:
    """Only what no member subscribes to goes; more than the limits allow is not touched."""
    group = workspace.group()
    before = workspace.operator.held(group)
    read = workspace.apps.create_topic(workspace.apps.name("read"))
    workspace.apps.commit(group, {TopicPartition(read, 0): 0})
    workspace.apps.join(group, [read])
    standing = {"dry_run": False, "approve": "within limits", "reason": "nightly"}

    limits = ["max_groups=1", "max_partitions=1"]
    over = workspace.cells("60_delete_offsets", groups=[group], **standing, limits=limits)

    assert BLOCKED == over.ended
    assert "too-many-partitions" in over.why
    assert {*before[group], (read, 0)} == set(workspace.operator.held(group)[group])

    limits = ["max_groups=1", "max_partitions=2"]
    done = workspace.run("60_delete_offsets", groups=[group], **standing, limits=limits)

    assert ("done", 2) == (done.status, done.counts["changed"])
    assert {(read, 0)} == set(workspace.operator.held(group)[group])


def test_a_deleted_group_comes_back(workspace: Workspace) -> None:
    """A group is deleted as its dry run showed it, and the undo brings back all it committed."""
    group = workspace.group()
    before = workspace.operator.held(group)

    dry = workspace.cells("61_delete_groups", groups=[group])

    assert (DONE, before) == (dry.ended, workspace.operator.held(group))
    done = workspace.invoke(shown_command(dry.shown), "a test")
    assert ("done", {}) == (done["status"], workspace.operator.held(group))

    dry = workspace.cells("70_undo", run=done["undo"][:-4])
    assert (DONE, {}) == (dry.ended, workspace.operator.held(group))
    undone = workspace.invoke(shown_command(dry.shown), "a mistake")
    assert ("done", before) == (undone["status"], workspace.operator.held(group))


def test_an_age_that_is_not_known_deletes_nothing(workspace: Workspace) -> None:
    """With an age, a group that was used a moment ago is left out, and there is nothing to do."""
    group = workspace.group()

    result = workspace.cells("61_delete_groups", groups=[group], empty_for="1d", dry_run=False)

    assert DONE == result.ended
    assert result.conclusion.summary.startswith("Nothing to do.")
    assert "too-young" in result.shown


@pytest.fixture
def log(workspace: Workspace) -> Path:
    """Return the audit log of a workspace: two runs without an outcome."""
    change = Change(TopicPartition("orders", 0), Position(7), None)
    step = Step(HOSTILE, Action.DELETE_OFFSETS, (change,), GroupType.SIMPLE, GroupState.EMPTY)
    now = datetime.now(UTC)
    plan = Plan(Intent.DELETE_OFFSETS, "delete offsets", "eu", "c1", now, (step,))
    for name, overrides in (("run-1", ("last-offsets",)), ("run-2", ())):
        run = audit.RunInfo(name, "alice", "desk", f"why {name}", overrides)
        audit.append(workspace.operator.state, audit.intent_entry(plan, run, now))
    return workspace.operator.state / "audit.jsonl"


def test_the_review_finds_runs_without_an_outcome(workspace: Workspace, log: Path) -> None:
    """Overridden rules are findings as well; a torn line is no tampering."""
    with log.open("ab") as file:
        file.write(b'{"seq": 3, "at": "')  # what a killed writer leaves
    result = workspace.run("80_audit_review", cluster="eu", groups=[HOSTILE])

    assert ("done", {"findings": 3, "problems": 0}) == (result.status, result.counts)
    assert "2 without an outcome, 1 with overrides; audit log intact" in result.summary
    for words in ("last-offsets", "why run-2", "alice", "is incomplete"):
        assert words in report(result)
    assert HOSTILE not in report(result)


def test_the_review_finds_a_changed_line(workspace: Workspace, log: Path) -> None:
    """A log that was changed is not reported as done: the line is named."""
    log.write_text(log.read_text().replace("why run-1", "why not"))

    result = workspace.cells("80_audit_review", cluster="")

    assert ("incomplete", 4) == result.ended
    assert "line 1 was changed" in result.shown
