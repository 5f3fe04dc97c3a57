"""Journeys clicked through in a real JupyterLab, on a real cluster that is looked at afterwards."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import operators
import pytest
from applications import Applications, eventually
from lab import DARK, FORGET_LAST_RUN, HAS_RUN, LIGHT, Lab, Open, open_notebook
from playwright.sync_api import BrowserContext, Locator, expect
from watched_pages import HOSTILE

from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Cluster, Group, TopicPartition
from toolkit.sandbox.fleet import Sandbox
from toolkit.sandbox.seed import POISON, POISON_OFFSET
from toolkit.storage import audit
from toolkit.storage.fleet_file import load_fleet

pytestmark = pytest.mark.browser("JupyterLab")

LINK = r"$\href{https://example.invalid/}{payments}$"
# What JupyterLab takes for mathematics.
FORMULAS = (
    LINK,
    "${app.group}-${env}",
    r"\(x^2\)",
    "$$y$$",
    r"\[z\]",
    r"\begin{align}a\end{align}",
)


@dataclass(frozen=True)
class Operator:
    """Where an operator sits: a browser, a JupyterLab, and a cluster that can be looked at."""

    lab: Lab
    context: BrowserContext
    cluster: Cluster
    fleet_file: Path
    state: Path

    def open(self, number: int, name: str, **parameters: Any) -> Open:
        where = {
            "cluster": self.cluster.name,
            "fleet_file": str(self.fleet_file),
            "state": str(self.state),
        }
        return open_notebook(
            self.context, self.lab, self.lab.copy(number, name, **where, **parameters)
        )

    def group(self, name: str) -> Group:
        (group,) = read_snapshot(self.cluster, groups=[name]).groups
        return group

    def committed(self, name: str) -> dict[TopicPartition, int]:
        commits = read_snapshot(self.cluster, groups=[name]).commits
        return {TopicPartition(c.topic, c.partition): c.offset for c in commits}

    @property
    def last_run(self) -> str:
        return [*audit.read(self.state)][-1].run.run_id

    def changes(self, word: str) -> list[str]:
        """Return what was begun of one kind of change, with its reason, by the audit log."""
        log = [entry for entry in audit.read(self.state) if entry.event == "intent"]
        return [entry.run.reason for entry in log if entry.request.startswith(word)]


@pytest.fixture
def operator(notebooks: BrowserContext, lab: Lab, own_sandbox: Sandbox, tmp_path: Path) -> Operator:
    fleet_file = own_sandbox.fleet_file
    return Operator(lab, notebooks, load_fleet(fleet_file)["eu"], fleet_file, tmp_path / "state")


@pytest.mark.default("one journey in a browser")
@pytest.mark.timeout(600)
def test_an_idle_group_is_reset_by_hand(operator: Operator) -> None:
    """Run All is a dry run; a wrong name applies nothing, the right one and two clicks once."""
    group = "nightly-export"
    before = operator.committed(group)
    notebook = operator.open(50, "reset", groups=[group], mode="to-earliest")

    notebook.run_all()
    expect(notebook.review).to_contain_text("awaiting approval")
    assert (before, []) == (operator.committed(group), operator.changes("reset"))

    # The command that is shown can be copied, by keyboard as well: here, to where the reason goes.
    notice = notebook.page.locator(".ob-notice", has_text="Dry run")
    notice.get_by_role("button", name="Copy").press("Enter")
    expect(notice.get_by_role("button", name="Copied")).to_be_visible()
    reason = notebook.review.locator("input[type=text]").nth(-2)
    reason.press("Control+V")
    expect(reason).to_have_value(str(notice.locator("code").text_content()))

    notebook.approve("a replay", "nightly-exports")
    expect(notebook.review).to_contain_text("The group id does not match.")
    notebook.force_click()
    expect(notebook.review).to_contain_text("Not applied.")
    assert (before, []) == (operator.committed(group), operator.changes("reset"))

    notebook.approve("a replay", group)
    expect(notebook.apply).to_be_enabled()
    notebook.screenshot("review_ready", of=notebook.review)
    notebook.apply.dblclick()
    notebook.force_click()
    notebook.told("4 changes made")
    assert dict.fromkeys(before, 0) == operator.committed(group)
    assert ["a replay"] == operator.changes("reset")

    notebook.run_from("decision.apply()")
    expect(notebook.page.locator(".ob-notice").last).to_contain_text("can be undone")
    assert ["a replay"] == operator.changes("reset")
    notebook.screenshot("review_applied")

    # The undo is a click away: a notebook with the run filled in.
    notebook.review.get_by_role("button", name="Undo").click()
    opened = notebook.page.locator(".jp-Notebook:visible .jp-CodeCell").first
    expect(opened).to_contain_text(f"run: str = '{operator.last_run}'")
    notebook.screenshot("undo_opened")


def test_a_kernel_that_is_restarted_forgets_the_approval(operator: Operator) -> None:
    """What was typed before a restart applies nothing after it; the cells make a new review."""
    group = "archiver"
    before = operator.committed(group)
    notebook = operator.open(50, "restarted", groups=[group], mode="to-earliest")
    notebook.run_all()
    notebook.approve("too early", group)
    expect(notebook.apply).to_be_enabled()

    notebook.restart()
    expect(notebook.review).to_be_hidden()
    expect(notebook.stored.locator("summary")).to_contain_text("awaiting approval")
    notebook.force_click()
    notebook.screenshot("review_restarted")
    notebook.reload()
    expect(notebook.stored.locator("summary")).to_contain_text("awaiting approval")
    notebook.without_error()
    notebook.screenshot("review_reloaded", of=notebook.stored)
    notebook.run_all()
    expect(notebook.stored).to_be_hidden()
    expect(notebook.apply).to_be_disabled()
    assert (before, []) == (operator.committed(group), operator.changes("reset"))

    notebook.approve("once more", group)
    notebook.applied("made")
    assert before != operator.committed(group)
    assert ["once more"] == operator.changes("reset")

    notebook.restart()
    expect(notebook.stored.locator("summary")).to_contain_text("applied")


def test_a_card_ends_with_its_plan(operator: Operator) -> None:
    """Once its parameters were run with other values, the card of a plan applies nothing."""
    group = "nightly-export"
    before = operator.committed(group)
    wanted = {"mode": "shift-by", "value": "1", "overrides": ["skips-unread-records"]}
    notebook = operator.open(50, "outdated", groups=[group], **wanted)
    notebook.run_all()
    notebook.approve("the old reason", group)
    expect(notebook.apply).to_be_enabled()

    notebook.edit("value = '1'", 'value, reason = "many", "the new reason"')
    # This cell alone: Run All clears the card, or shows it again, depending on which is faster.
    notebook.page.keyboard.press("Control+Enter")
    expect(notebook.review.locator(".ow-badge")).to_have_text("out of date")
    expect(notebook.apply).to_be_disabled()
    notebook.screenshot("plan_out_of_date", of=notebook.review)
    notebook.force_click()
    expect(notebook.review).to_contain_text("Not applied. Out of date")
    assert (before, []) == (operator.committed(group), operator.changes("reset"))


def test_the_changes_of_many_groups_scroll_one_way(operator: Operator) -> None:
    """In a window of 1,280 px every column of the review is in sight."""
    wanted = {"mode": "by-duration", "value": "P1D"}
    notebook = operator.open(50, "many", groups=["*"], **wanted)
    notebook.run_all()
    rows = notebook.review.locator(".ow-rows .ob-scroll")
    expect(rows).to_contain_text("commit metadata cleared")

    assert 0 == rows.evaluate("rows => rows.scrollWidth - rows.clientWidth")
    assert 0 < rows.evaluate("rows => rows.scrollHeight - rows.clientHeight")
    notebook.screenshot("review_of_many", of=notebook.review)


def test_leftovers_are_deleted_while_the_group_lives(operator: Operator) -> None:
    """J3: the offsets of a topic that a live group no longer reads go, and all others stay."""
    group, leftover = "billing", "invoices.draft"
    members = operator.group(group).members
    notebook = operator.open(60, "leftovers", groups=[group], topics=[leftover])
    notebook.run_all()

    notebook.approve("left over", group)
    notebook.applied("made")

    assert {"invoices.issued"} == {partition.topic for partition in operator.committed(group)}
    assert members == operator.group(group).members
    assert ["left over"] == operator.changes("delete")
    notebook.screenshot("leftovers_deleted", of=notebook.review)


def test_past_a_poison_record_by_hand(operator: Operator) -> None:
    """J1: choose the stuck tile, pause it, move its offset on, resume it; the others flow."""
    group, scope = "fraud-check", f"{POISON.topic}:{POISON.partition}"
    pause = operator.open(40, "pause", groups=[group])
    pause.run_all()
    stuck = pause.board.locator(".ow-tile").nth(POISON.partition)
    expect(stuck).to_contain_text("lagging")
    # By keyboard alone.
    stuck.focus()
    expect(stuck).to_have_attribute("aria-pressed", "false")
    pause.page.keyboard.press("Space")
    expect(stuck).to_have_attribute("aria-pressed", "true")
    expect(pause.page.locator('[title="null"]')).to_have_count(0)
    expect(pause.board.get_by_role("button", name="Plan pause (1 partition)")).to_be_enabled()
    pause.screenshot("board_chosen")
    pause.board.get_by_role("button", name="Plan pause").press("Enter")
    expect(pause.board).to_contain_text(f"Selected for pause: {scope}")
    assert {} == operator.group(group).paused

    go_on(pause, pause.board, "Continue with the pause")
    pause.approve("a poison record", group)
    pause.applied("1 change made")
    assert {POISON} == {*operator.group(group).paused}
    # The board reads the group again by itself, and the card leads on.
    expect(stuck).to_contain_text("paused")
    pause.screenshot("paused", of=pause.review)
    expect(pause.review.get_by_role("button", name="Resume")).to_be_enabled()

    move = operator.open(
        50,
        "move",
        groups=[group],
        topics=[scope],
        mode="to-offset",
        value=str(POISON_OFFSET + 1),
    )
    move.run_all()
    expect(move.review).to_contain_text("Blocked · skips-unread-records")
    move.approve("a poison record", group)
    expect(move.apply).to_be_disabled()
    move.review.get_by_text("Override skips-unread-records").click()
    expect(move.review).to_contain_text("Block overridden · skips-unread-records")
    move.applied("1 change made")
    # The cells above and below follow.
    expect(move.page.get_by_text("1 done, read back from the cluster").first).to_be_visible()
    expect(move.page.get_by_text("nothing was changed")).to_have_count(0)
    expect(move.page.get_by_text("Nothing was applied")).to_have_count(0)
    assert POISON_OFFSET + 1 == operator.committed(group)[POISON]

    expect(stuck).to_contain_text("paused")
    pause.board.get_by_role("button", name="Plan resume (1 partition)").click()
    pause.run_from("wanted, places")
    pause.approve("it is past it", group)
    pause.applied("1 change made")
    assert {} == operator.group(group).paused
    eventually(lambda: operator.committed(group)[POISON] > POISON_OFFSET + 1)
    requests = [entry.request.split()[0] for entry in audit.read(operator.state)]
    assert ["pause", "reset", "resume"] == list(dict.fromkeys(requests))


def go_on(notebook: Open, card: Locator, button: str) -> None:
    """Press Continue, and wait for the last cell below; the card is not made anew."""
    card.evaluate("card => { card.dataset.before = 'yes'; }")
    notebook.page.evaluate(FORGET_LAST_RUN)
    card.get_by_role("button", name=button).press("Enter")
    notebook.page.wait_for_function(HAS_RUN)
    expect(notebook.failed).to_have_count(0)
    expect(card).to_have_attribute("data-before", "yes")


LOOK = """\
import toolkit as ob, widgets
groups = ob.connect("eu", {fleet_file!r}).choices()
used = []
picker = widgets.group_picker(groups, on_pick=used.append)
picker"""


def test_groups_are_found_by_keyboard_alone(operator: Operator) -> None:
    """Search, list and button work with keys, which JupyterLab does not take for its own."""
    look = LOOK.format(fleet_file=str(operator.fleet_file))
    name = operator.lab.write("picker", look, "print(picker.picked, used)", "None")
    notebook = open_notebook(operator.context, operator.lab, name)
    notebook.run_all()
    card, keys = notebook.page.locator(".ow-card").first, notebook.page.keyboard
    expect(card).to_contain_text(HOSTILE)
    assert 0 == card.locator("img").count()

    card.locator("input[type=text]").focus()
    keys.type("bill")
    expect(card.locator(".ow-list option")).to_have_count(2)
    for key in (*["Tab"] * 4, "ArrowDown", "Shift+ArrowDown"):
        keys.press(key)
    expect(card.get_by_role("button", name="Use 2 groups")).to_be_enabled()
    keys.press("x")  # to JupyterLab: cut the cell
    keys.press("Tab")
    keys.press("Enter")
    notebook.screenshot("picker", of=card)
    notebook.run_from("picker.picked")

    expect(notebook.page.locator(".jp-OutputArea-output").last).to_have_text(
        "('billing', 'billing-v2') [('billing', 'billing-v2')]"
    )


RUNS = """\
import pandas as pd, widgets
row = dict.fromkeys(("run", "at", "cluster", "request", "who", "result"), "eu")
widgets.run_picker(pd.DataFrame([{{**row, "reason": "{reason}"}}]))"""


def test_a_run_with_a_long_reason_is_read_in_a_tooltip(operator: Operator) -> None:
    """The list of runs shows the start of a line, and a tooltip all of it."""
    reason = "the export failed " * 20
    name = operator.lab.write("runs", RUNS.format(reason=reason))
    notebook = open_notebook(operator.context, operator.lab, name)
    notebook.run_all()

    listed = notebook.page.locator(".ow-list option")
    listed.hover()

    expect(listed).to_have_attribute("title", f"eu  eu  eu  ·  {reason}  ·  eu")


STATE = """async () => {
    const { context, sessionContext } = jupyterapp.shell.currentWidget;
    await sessionContext.ready;
    await Promise.all([sessionContext.session.kernel.info, sessionContext.session.kernel.spec]);
    await new Promise(done => setTimeout(done));
    return [context.path, context.model.dirty];
}"""


CUT_LINES = """select => {
    const pen = document.createElement("canvas").getContext("2d");
    pen.font = getComputedStyle(select).font;
    const lines = [...select.options].map(option => option.text);
    return lines.filter(line => pen.measureText(line).width > select.clientWidth - 16);
}"""


def test_a_group_is_chosen_where_none_is_named(
    operator: Operator, applications: Callable[[Cluster], Applications]
) -> None:
    """Run All stops at one sentence; a group of a hostile name is chosen, looked at and drawn."""
    name = "<img src=y onerror=alert(2)>"  # an idle group: its lag is never zero
    long = f"payments-reconciliation-{'x' * 60}"
    for group in (name, long):
        applications(operator.cluster).commit(group, {TopicPartition("ledger.entries", 0): 50})
    notebook = operator.open(90, "chosen", sample_interval="2s", after=0)
    alarms = alarms_of(notebook)
    notebook.menu("Run", "Run All Cells")
    expect(notebook.failed).to_have_text(
        "UsageError: no group selected. Try: select one above, or set the parameter groups"
    )
    picker = notebook.page.locator(".ow-card").first
    # Run All leaves the page at its end.
    expect(picker.locator(".ow-list")).to_be_in_viewport(ratio=1)
    listed = picker.locator(".ow-list option", has_text="payments-r")
    listed.hover()
    expect(listed).to_have_attribute("title", long)
    assert [] == picker.locator(".ow-list select").evaluate(CUT_LINES)
    picker.locator("input[type=text]").fill(name)
    expect(listed).to_have_count(0)
    picker.locator(".ow-list select").select_option(index=0)
    expect(picker).to_contain_text(f"Selected: {name}. Next: run the cells below")
    notebook.screenshot("picker_one", of=picker)

    # Continue runs the cells below the list, and not the list itself again.
    go_on(notebook, picker, "Continue with 1 group")
    chart = notebook.page.locator(".ow-card").filter(has=notebook.page.locator(".js-plotly-plot"))
    expect(chart).to_contain_text("Lag by partition")
    expect(notebook.charts).to_have_count(1)
    notebook.screenshot("lag_of_one", of=chart)
    expect(notebook.page.locator(".jp-OutputArea-output").last).to_contain_text(name)
    assert 0 == notebook.page.locator("img[onerror]").count()

    # Run All makes the picker anew, and the choice stays.
    notebook.menu("Run", "Run All Cells")
    expect(notebook.page.locator(".ow-card").first).to_contain_text(f"Selected: {name}.")
    expect(notebook.failed).to_have_count(0)
    expect(notebook.page.locator(".jp-OutputArea-output").last).to_contain_text(name)

    # The next step is a copy of its notebook that has this group.
    notebook.page.get_by_role("button", name="Open 61_delete_groups").click()
    opened = notebook.page.locator(".jp-Notebook:visible .jp-CodeCell").first
    expect(opened).to_contain_text(f"groups: list[str] = [{name!r}]")
    # Once its kernel has started, the notebook is still as it is in its file.
    assert ["61-eu-img-src-y-onerror-alert-delete_groups.ipynb", False] == notebook.page.evaluate(
        STATE
    )
    notebook.screenshot("next_step_opened")
    assert [] == alarms


EXPIRY = """\
import sys
sys.path.insert(0, {facts!r})
from datetime import timedelta
from expiry_facts import CLASSIC, EMPTY, T0, frame
from toolkit.planning.expiry.expiry_forecast import select_expiring
from toolkit.planning.expiry.expiry_forecast import with_expiry
import widgets
names, now = ["nightly-export", {name!r}], T0 + timedelta(hours=1)
rows = [dict(CLASSIC | EMPTY, group=name, empty_since=3600) for name in names]
found = select_expiring(with_expiry(frame(*rows), now=now), now=now, within_s=864_000)
widgets.expiry_timeline(found, now=now)"""


def test_when_offsets_of_one_group_expire(operator: Operator) -> None:
    """The timeline is drawn once, of all groups or of one, whose name would be a link."""
    link = "<a href='http://evil.invalid'>left</a>"
    facts = str(Path(__file__).parents[1] / "planning")
    name = operator.lab.write("expiry", EXPIRY.format(facts=facts, name=link))
    notebook = open_notebook(operator.context, operator.lab, name)
    alarms = alarms_of(notebook)
    notebook.run_all()
    card = notebook.page.locator(".ow-card")
    labels = notebook.charts.locator(".ytick")
    expect(labels).to_have_text(["nightly-export · eu", f"{link} · eu"])
    expect(notebook.charts).to_have_count(1)

    box = card.locator("input")
    box.fill(link)
    expect(labels).to_have_text([f"{link} · eu"])
    notebook.screenshot("expiry_of_one", of=card)
    assert 0 == card.locator("a[href*=evil]").count()
    box.fill("nobody")
    expect(card.get_by_text("nobody: Not among the 2 groups of this chart.")).to_be_visible()
    expect(labels).to_have_count(0)
    assert [] == alarms

    # Once the kernel is gone, what is stored of the chart is drawn: of all groups, as wide as it.
    notebook.restart()
    expect(card).to_be_hidden()
    expect(notebook.charts).to_have_count(1)
    notebook.reload()
    expect(notebook.page.locator(".jp-RenderedPlotly img")).to_be_visible()
    notebook.without_error()
    notebook.screenshot("expiry_stored")


def alarms_of(notebook: Open) -> list[str]:
    """Return a list that takes every dialog which a page opens."""
    alarms: list[str] = []
    notebook.page.on("dialog", lambda dialog: (alarms.append("dialog"), dialog.dismiss()))
    return alarms


def test_hostile_names_are_text_everywhere(
    operator: Operator, request: pytest.FixtureRequest
) -> None:
    """A group that is called by HTML is shown and typed as what it is called, in the dark."""
    group = HOSTILE
    operator.lab.set(DARK)
    request.addfinalizer(lambda: operator.lab.set(LIGHT))
    board = operator.open(40, "hostile_board", groups=[group])
    alarms = alarms_of(board)
    board.run_all()

    expect(board.board).to_contain_text(group)
    assert 0 == board.page.locator(".jp-OutputArea img").count()
    board.board.locator(".ow-tile").first.click()
    board.board.get_by_role("button", name="Plan pause").click()
    board.run_from("wanted, places")
    board.approve("nothing will come of it", group)
    expect(board.apply).to_be_enabled()
    board.screenshot("hostile_dark", of=board.review)
    board.screenshot("hostile_board_dark", of=board.board)
    assert 0 == board.page.locator(".jp-OutputArea img").count()
    assert [] == alarms


def test_names_are_shown_letter_by_letter(operator: Operator) -> None:
    """No name is typeset as mathematics, in which one group can be shown as a link to another."""
    place = TopicPartition("invoices.issued", 0)
    for name in FORMULAS:
        operators.Operator(operator.cluster, operator.state).commit(name, {place: 0})
    deleting = operator.open(61, "formulas", groups=list(FORMULAS))
    deleting.run_all()

    expect(deleting.review).to_contain_text("awaiting approval")
    for name in FORMULAS:
        expect(deleting.review).to_contain_text(name)
    looking = operator.open(90, "formula", groups=[LINK], sample_interval="1s")
    looking.run_all()
    expect(looking.page.locator(".jp-OutputArea", has_text=LINK).first).to_be_visible()
    deleting.screenshot("formulas")
    for page in (deleting.page, looking.page):
        outputs = page.locator(".jp-OutputArea")
        assert 0 == outputs.locator("mjx-container").count()
        assert 0 == outputs.locator("a[href*='example.invalid']").count()
