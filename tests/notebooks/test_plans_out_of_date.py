"""A plan belongs to the cells and parameters above it: what changes there ends it, visibly."""

import threading
from datetime import timedelta
from typing import Any

import ipywidgets
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from shells import OpenNotebook, open_in
from workspaces import Workspace

from toolkit.errors import OutOfDate, ParameterError, UsageError
from toolkit.kafka_io.writes.commit_and_delete import GroupWriter
from toolkit.model import TopicPartition
from widgets.plan_review import PlanReview

PARAMETERS, CONNECT, PLAN, DECIDE, REVIEW, APPLY, VERIFY, RESULT = (
    *("02-parameters", "cell-4", "cell-6", "cell-8"),
    *("cell-10", "cell-12", "cell-14", "cell-16"),
)


@pytest.fixture
def notebook(shell: InteractiveShell, workspace: Workspace) -> OpenNotebook:
    """Return the reset notebook after Run All, with a plan that awaits approval."""
    group = workspace.group()
    wanted = {"mode": "shift-by", "value": "-2", "overrides": ["keeps-committing"]}
    notebook = open_in(shell, workspace, "50_reset_offsets", groups=[group], **wanted)
    assert notebook.run_all() is None
    return notebook


def card_of(notebook: OpenNotebook) -> PlanReview:
    """Return the card that the review cell shows, as it is on the page."""
    card: PlanReview = notebook["decision"].review()
    assert card.view
    assert "awaiting approval" in card.head.value
    return card


def labels(widget: Any) -> list[str]:
    own = [widget.description] if isinstance(widget, ipywidgets.Button) else []
    return [*own, *(label for child in getattr(widget, "children", ()) for label in labels(child))]


def cannot_be_applied(card: PlanReview, group: str) -> None:
    """The card says that it is out of date; whatever is typed and clicked, nothing is applied."""
    assert "out of date" in card.head.value
    card.reason.value, card.confirmation_input.value = "a reason", group
    card.approve()
    assert card.button.disabled
    assert "Not applied. Out of date" in card.message.value
    assert card.outcome is None


@pytest.mark.parametrize(
    ("edited", "error"),
    [
        ('value = "many"', UsageError),  # refused by the plan's cell
        ("value = 50", ParameterError),  # refused before anything is read
        ("value = many", NameError),
        ("value = -50 records", SyntaxError),  # no line of it has run
    ],
)
def test_a_cell_that_fails_ends_the_plan_before_it(
    notebook: OpenNotebook, workspace: Workspace, edited: str, error: type[Exception]
) -> None:
    """After Run All with a wrong value the earlier card and decision apply nothing."""
    (group,) = notebook["groups"]
    card, before = card_of(notebook), workspace.operator.held(group)

    failed = notebook.run_all(f"{notebook.cells[PARAMETERS]}\n{edited}\nreason = 'a new one'")

    assert isinstance(failed, error)
    cannot_be_applied(card, group)
    # The cells below, run one by one, apply nothing either.
    for cell in (DECIDE, APPLY, RESULT):
        assert isinstance(notebook.run(cell), OutOfDate)
    with capture_output() as shown:
        assert notebook.run(VERIFY) is None
    assert "Nothing was applied: this plan is out of date" in str(shown.outputs[0].data)
    assert (before, []) == (workspace.operator.held(group), workspace.operator.log)


def test_reruns_and_changes_that_end_a_plan(notebook: OpenNotebook) -> None:
    """A rerun of a cell above ends it, and a parameter set anywhere; other cells do not."""
    (group,) = notebook["groups"]
    card = card_of(notebook)
    for cell, source in ((REVIEW, None), (APPLY, None), ("new", "session.lag([])")):
        assert notebook.run(cell, source) is None or cell == "new"
        assert "awaiting approval" in card.head.value

    assert notebook.run(PLAN) is None  # which makes a plan of its own
    cannot_be_applied(card, group)
    assert isinstance(notebook.run(APPLY), OutOfDate)

    for change in ("topics.append('orders')", "topics = ['orders']", "globals().update(live='x')"):
        assert notebook.run_all() is None
        card = card_of(notebook)
        assert notebook.run("new", change) is None
        cannot_be_applied(card, group)


def test_another_selection_on_the_board_ends_a_plan(
    shell: InteractiveShell, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is selected after the plan was made is not what its card applies."""
    notebook = open_in(shell, workspace, "40_pause_partitions", groups=[workspace.group()])
    for cell in (PARAMETERS, CONNECT, "group", PLAN):  # of that notebook: the board
        assert notebook.run(cell) is None
    assert notebook.run("cell-8") is None
    change, board = notebook["change"], notebook["board"]
    assert "" == change.inputs.outdated
    monkeypatch.setattr(board, "scope", lambda _: [TopicPartition("orders", 0)])

    board.plan("pause")

    assert "partitions were selected on the board" == change.inputs.outdated


def test_a_change_whose_page_was_closed_is_reported(
    notebook: OpenNotebook, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the notebook starts again, the state of the run is read from the audit log."""
    (group,) = notebook["groups"]
    card, reached, opened = card_of(notebook), threading.Event(), threading.Event()
    commit = GroupWriter.commit

    def commit_behind_gate(writer: GroupWriter, group_id: str, positions: Any) -> Any:
        reached.set()
        assert opened.wait(60)
        return commit(writer, group_id, positions)

    monkeypatch.setattr(GroupWriter, "commit", commit_behind_gate)
    card.reason.value, card.confirmation_input.value = "a replay", group
    card.approve()
    assert reached.wait(60)
    run = workspace.operator.log[-1].run.run_id
    running = begun(notebook)
    opened.set()
    assert card.background.wait(60)
    ended = begun(notebook)

    latest = "Your latest change on test: "
    assert (f"{latest}interrupted or still running", f"{latest}2 done") == (
        running.partition("\n")[0],
        ended.partition("\n")[0],
    )
    assert all(f"Run {run}, begun at " in told for told in (running, ended))
    # Nobody is told of what is long over.
    monkeypatch.setattr("toolkit.session.RECENT", timedelta())
    assert "" == begun(notebook)


def begun(notebook: OpenNotebook) -> str:
    """Return what the first cell shows of the operator's latest change, as text; "" for nothing."""
    with capture_output() as shown:
        assert notebook.run(CONNECT) is None
    texts = (str(output.data.get("text/plain", "")) for output in shown.outputs)
    return next((text for text in texts if text.startswith("Your latest change")), "")


def test_an_applied_change_stays_applied(notebook: OpenNotebook, workspace: Workspace) -> None:
    """A rerun of a cell above does not take it back, nor show it as unapplied."""
    (group,) = notebook["groups"]
    card = card_of(notebook)
    changes: list[bool] = []
    notebook["session"].tell_changed = lambda: changes.append(True)
    assert () == card.follow_ups.children
    card.reason.value, card.confirmation_input.value = "a replay", group
    with capture_output() as shown:
        card.approve()
        assert card.background.wait(60)
    # What the cells below have shown says so by now.
    told = [output.data["text/plain"] for output in shown.outputs if output.update]
    verified, concluded = (text for text in told if notebook["outcome"].run_id in text)
    assert "can be undone" in verified
    assert "2 done, read back from the cluster" in concluded
    # Whoever looks at the group reads it again, and the next notebooks are a click away.
    assert [True] == changes
    (steps,) = card.follow_ups.children
    assert ["Undo", "Next: check the group"] == labels(steps)

    assert notebook.run(CONNECT) is None

    assert card.error is None
    assert "applied</span>" in card.head.value
    assert "out of date" not in card.head.value
    assert notebook.run(APPLY) is None
    assert notebook["outcome"].is_done
    with capture_output() as shown:
        assert notebook.run(VERIFY) is None
    assert "Next: check the group" in str([output.data for output in shown.outputs])
    assert {5} == {at.offset for at in workspace.operator.held(group)[group].values()}
