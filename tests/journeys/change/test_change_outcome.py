"""The last steps of a notebook that changes something."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from applications import Applications
from desks import BRIEFLY, Desk

from toolkit.journeys.change.change_outcome import apply_decided, leave_plan, run_command
from toolkit.journeys.change.decision import Decision
from toolkit.model import TopicPartition
from toolkit.plan import Position
from toolkit.plan.approvals import Approval
from toolkit.runner.parameters import parse_parameters, read_parameters
from toolkit.storage.conclusion_file import FILE_VARIABLE
from toolkit.storage.plan_files import read_plan

MakeNotebook = Callable[..., Path]

PARAMETERS = """\
cluster: str = "eu"  # where
groups: list[str] = []  # which
value: str = ""  # what
count: int = 0  # how many
dry_run: bool = True  # or not
"""


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"groups": ["payments"]},
        {"groups": ["payments", "it's <img src=x>"]},
        {"groups": ["one, and only one"], "value": "a b;c"},
        {"value": "-5", "count": -5, "dry_run": False},
    ],
)
def test_the_command_means_the_values(make_notebook: MakeNotebook, values: dict[str, str]) -> None:
    """A shell and `offsetbook run` read exactly those values out of the command that is shown."""
    notebook = make_notebook("1", parameters=PARAMETERS)

    words = shlex.split(run_command(str(notebook), values, cluster="us"))

    assert ["offsetbook", "run", str(notebook)] == words[:3]
    texts = [tuple(text.split("=", 1)) for text in words[4::2]]
    read = parse_parameters(read_parameters(notebook), texts, notebook="x")
    assert values | {"cluster": "us"} == read


def test_the_plan_is_left_beside_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, desk: Desk, apps: Applications
) -> None:
    """With a runner the plan goes into the folder of the run; without one, nowhere."""
    topic, group = apps.create_topic(apps.name("orders"), records=9), apps.name("payments")
    desk.commit(group, {TopicPartition(topic, 0): Position(7)})
    plan = desk.reset(group)
    monkeypatch.delenv(FILE_VARIABLE, raising=False)
    assert "" == leave_plan(plan)

    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / ".conclusion.json"))

    assert plan == read_plan(Path(leave_plan(plan)))
    assert tmp_path == Path(leave_plan(plan)).parent


def test_the_runner_is_told_as_soon_as_something_was_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, desk: Desk, apps: Applications
) -> None:
    """A run that is stopped right after its apply has said what it changed and how to undo it."""
    topic, group = apps.create_topic(apps.name("orders"), records=9), apps.name("payments")
    desk.commit(group, {TopicPartition(topic, 0): Position(7)})
    plan = desk.reset(group)
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "conclusion.json"))

    approval = Approval(plan.fingerprint, "a test", watch=BRIEFLY)

    outcome = apply_decided(
        Decision(plan, "approved", approval=approval), desk.cluster, state=desk.state
    )

    assert outcome is not None
    told = json.loads((tmp_path / "conclusion.json").read_text())
    assert (outcome.run_id, {"findings": 0, "planned": 1, "changed": 1, "refused": 0}) == (
        told["undo"],
        told["counts"],
    )
    assert {group: {TopicPartition(topic, 0): Position(0, 0)}} == desk.held(group)
