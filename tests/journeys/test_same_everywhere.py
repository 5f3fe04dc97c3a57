"""Every journey is the same by command, by Kafka's own flags, in a notebook and in Python."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from applications import Applications
from click.testing import CliRunner
from operators import Operator
from workspaces import Workspace

from toolkit.cli import cli
from toolkit.journeys.change.planned_change import PlannedChange
from toolkit.journeys.copy import CopyRequest
from toolkit.journeys.delete_offsets import OffsetChoice
from toolkit.journeys.reset import target
from toolkit.storage.offsets_files import json_text, saved_offsets

TOOL = "consumer-groups"
FINDING = re.compile(r"^(block|note): ([a-z-]+): ", re.MULTILINE)
FINGERPRINT = re.compile(r"Fingerprint: ([0-9a-f-]{39})")


class Answer(NamedTuple):
    """What a front end says of a change that is only looked at."""

    exit_code: int
    findings: frozenset[tuple[str, str]]  # severity and rule
    fingerprint: str  # "" where there is nothing to approve
    overrides: frozenset[str]  # which it offers to go on with


@dataclass(frozen=True)
class FrontEnds:
    """The ways in which an operator asks, from one workspace."""

    workspace: Workspace

    def command(self, *words: str) -> Answer:
        fleet = ("--fleet", str(self.workspace.fleet_file), "--cluster", "test")
        environment = {"OFFSETBOOK_STATE": str(self.workspace.operator.state)}
        done = CliRunner().invoke(
            cli, [*words, *fleet, "--dry-run"], env=environment, catch_exceptions=False
        )
        found = FINGERPRINT.search(done.stderr)
        return Answer(
            done.exit_code,
            frozenset(FINDING.findall(done.stderr)),
            found[1] if found else "",
            frozenset(re.findall(r"--override ([a-z-]+)", done.stderr)),
        )

    def notebook(self, number: int, **parameters: Any) -> Answer:
        told = self.workspace.cells(f"{number}", **parameters)
        offered = re.findall(r"set overrides = \[([^\]]*)\]", told.shown)
        decision = told.names["decision"]
        fingerprint = decision.plan.fingerprint
        return Answer(
            told.ended[1],
            frozenset((str(f.severity), f.rule) for f in decision.findings),
            fingerprint if f"Fingerprint: {fingerprint}" in told.shown else "",
            frozenset(re.findall(r"[a-z-]{3,}", " ".join(offered))),
        )

    def python(self, change: PlannedChange) -> Answer:
        decision = change.decide()
        return Answer(
            decision.apply().ending.exit_code,
            frozenset((str(f.severity), f.rule) for f in change.findings),
            change.fingerprint if decision.wants_approval else "",
            frozenset(decision.overrides_offered),
        )


@pytest.fixture
def ends(workspace: Workspace) -> FrontEnds:
    return FrontEnds(workspace)


def same(answers: Sequence[Answer], exit_code: int, *rules: str) -> Answer:
    """Every front end ends with this code, blocked by these rules, and says the same."""
    first = answers[0]
    assert [first] * len(answers) == list(answers)
    assert exit_code == first.exit_code
    assert set(rules) == {rule for severity, rule in first.findings if severity == "block"}
    return first


@pytest.mark.parametrize(
    ("mode", "value", "code", "rules"),
    [("to-offset", "2", 0, ()), ("to-latest", "", 3, ("skips-unread-records",))],
)
def test_a_reset(ends: FrontEnds, mode: str, value: str, code: int, rules: tuple[str, ...]) -> None:
    """A reset that may be made, and one that is blocked by a rule that can be overridden."""
    group = ends.workspace.group()
    flags = [f"--{mode}", *([value] if value else [])]

    found = same(
        (
            ends.command("reset", "--group", group, *flags),
            ends.command(TOOL, "--reset-offsets", "--group", group, "--all-topics", *flags),
            ends.notebook(50, groups=[group], mode=mode, value=value),
            ends.python(ends.workspace.operator.session.reset([group], to=target(mode, value))),
        ),
        code,
        *rules,
    )

    assert (set(rules), code == 0) == (found.overrides, bool(found.fingerprint))


def test_a_misspelt_topic(ends: FrontEnds) -> None:
    """Offsets of a topic that does not exist are not deleted, and that is no success."""
    group, which = ends.workspace.group(), OffsetChoice(["misspelt"])

    same(
        (
            ends.command("delete-offsets", "--group", group, "--topic", "misspelt"),
            ends.command(TOOL, "--delete-offsets", "--group", group, "--topic", "misspelt"),
            ends.notebook(60, groups=[group], topics=["misspelt"]),
            ends.python(ends.workspace.operator.session.delete_offsets([group], which)),
        ),
        3,
        "no-such-partition",
    )


@pytest.mark.parametrize("exists", [True, False])
def test_a_group_is_deleted(ends: FrontEnds, *, exists: bool) -> None:
    """An idle group may be deleted, one that does not exist is a mistake."""
    group = ends.workspace.group() if exists else "no-such"

    found = same(
        (
            ends.command("delete-groups", "--group", group),
            ends.command(TOOL, "--delete", "--group", group),
            ends.notebook(61, groups=[group]),
            ends.python(ends.workspace.operator.session.delete_groups([group])),
        ),
        0 if exists else 3,
        *(() if exists else ("no-such-group",)),
    )

    assert exists == bool(found.fingerprint)


def test_a_copy_a_rename_and_an_undo(ends: FrontEnds) -> None:
    """What is copied, renamed and put back."""
    operator, group = ends.workspace.operator, ends.workspace.group()
    to_group, session = f"{group}-copy", operator.session
    run = operator.apply(operator.reset(group, to=3), "keeps-committing").run_id

    copied = (
        ends.command("copy", "--group", group, "--to", to_group),
        ends.notebook(52, groups=[group], to_group=to_group),
        ends.python(session.copy(CopyRequest(group, to_group))),
    )
    renamed = (
        ends.command("rename", "--group", group, "--to", to_group),
        ends.python(session.rename(group, to_group=to_group)),
    )
    undone = ends.command("undo", run), ends.notebook(70, run=run), ends.python(session.undo(run))
    in_part = (
        ends.command("undo", run, "--group", group),
        ends.notebook(70, run=run, groups=[group]),
        ends.python(session.undo(run, groups=[group])),
    )

    assert all(same(answers, 0).fingerprint for answers in (copied, renamed, undone, in_part))


def test_a_rescue_and_a_restore(ends: FrontEnds) -> None:
    """What is committed again as it is, and what comes out of a file."""
    operator, group = ends.workspace.operator, ends.workspace.group()
    file, session = ends.workspace.folder / "saved.json", operator.session
    operator.apply(operator.reset(group, to=3), "keeps-committing")
    file.write_text(json_text(saved_offsets(operator.facts(group), {group})))
    operator.apply(operator.reset(group, to=7), "keeps-committing", "skips-unread-records")

    rescued = ends.command("rescue", "--group", group), ends.python(session.rescue([group]))
    restored = ends.command("restore", str(file)), ends.python(session.restore(file))

    assert all(same(answers, 0).fingerprint for answers in (rescued, restored))


@pytest.mark.live("consumers run")
def test_a_live_group(ends: FrontEnds, operator: Operator, apps: Applications) -> None:
    """A live group is not reset; it is moved, and its partitions are paused."""
    # It has read everything: a member with lag is called slow once its commit is old enough.
    group = ends.workspace.group(offset=10)
    (topic, _), *_ = operator.held(group)[group]
    apps.join(group, [topic])
    session, scope, earliest = operator.session, f"{topic}:0", target("to-earliest")
    by_tool = ("--reset-offsets", "--group", group, "--all-topics", "--to-earliest")
    pause_by_tool = ("--pause", "--group", group, "--topic", scope)

    reset = (
        ends.command("reset", "--group", group, "--to-earliest"),
        ends.command(TOOL, *by_tool),
        ends.notebook(50, groups=[group], mode="to-earliest"),
        ends.python(session.reset([group], to=earliest)),
    )
    moved = (
        ends.command("move", "--group", group, "--to-earliest"),
        ends.notebook(50, groups=[group], mode="to-earliest", live="lossless"),
        ends.python(session.move(group, to=earliest)),
    )
    paused = (
        ends.command("pause", "--group", group, "--topic", scope),
        ends.command(TOOL, *pause_by_tool),
        ends.notebook(40, groups=[group], topics=[scope], pause_for=""),
        ends.python(session.pause(group, [scope])),
    )
    resumed = (
        ends.command("resume", "--group", group),
        ends.command(TOOL, "--resume", "--group", group),
        ends.notebook(40, groups=[group], action="resume"),
        ends.python(session.resume(group)),
    )

    assert ("", frozenset()) == same(reset, 3, "group-live")[2:]
    assert all(same(answers, 0).fingerprint for answers in (moved, paused))
    assert "" == same(resumed, 0).fingerprint
