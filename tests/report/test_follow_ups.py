"""What comes after a change."""

from dataclasses import replace
from typing import Any

import pytest
from facts import idle, live, member, snapshot
from plans_for_review import plan_for
from workspaces import parameters_of

from toolkit.model import TopicPartition
from toolkit.plan import Intent
from toolkit.report.next_step_list import follow_ups
from toolkit.runner.notebooks import find_notebook
from toolkit.runner.parameters import check_parameters, read_parameters

WHERE = {"cluster": "eu", "fleet_file": "fleet.yaml", "state": "state"}
HELD = live("payments", replace(member("orders"), holds=(TopicPartition("orders", 0),)))
UNDO, CHECK = ("70_undo", {"run": "r1"}), ("90_troubleshoot_group", {"groups": ["payments"]})
RESUME = ("40_pause_partitions", {"action": "resume", "groups": ["payments"]})
MOVE = ("50_reset_offsets", {"groups": ["payments"], "topics": ["refunds:2"], "mode": "to-offset"})
LOG = ("80_audit_review", {"groups": ["payments"]})


@pytest.mark.parametrize(
    ("intent", "held", "undo", "expected"),
    [
        (Intent.RESET, [], "r1", [UNDO, CHECK]),
        (Intent.RESET, [], "", [CHECK]),
        (Intent.DELETE_GROUPS, [], "r1", [UNDO, LOG]),
        # Of a pause that was partly applied, what is paused by now.
        (Intent.PAUSE, [TopicPartition("refunds", 2)], "", [RESUME, MOVE]),
    ],
)
def test_the_steps_after_a_change(
    intent: Intent,
    held: list[TopicPartition],
    undo: str,
    expected: list[tuple[str, dict[str, Any]]],
) -> None:
    """Each is a notebook with its parameters, which it takes, and a command that does the same."""
    plan = replace(plan_for("payments"), intent=intent)
    steps = [*follow_ups(plan, snapshot(idle("payments")), WHERE, undo=undo, held=held)]

    assert [(name, WHERE | given) for name, given in expected] == [
        (step.notebook, step.parameters) for step in steps
    ]
    for step in steps:
        declared = read_parameters(find_notebook(step.notebook))
        check_parameters(declared, step.parameters, notebook=step.notebook)
        assert (step.notebook, step.parameters) == parameters_of(step.command)


def test_deleted_offsets_of_a_live_group_can_be_restored() -> None:
    """Its consumers need not be stopped while the topic is not subscribed."""
    plan = replace(plan_for("payments"), intent=Intent.DELETE_OFFSETS)
    live_group = snapshot(live("payments", member("orders")))
    undo, _ = follow_ups(plan, live_group, WHERE, undo="r1", held=())

    assert "Only while no member subscribes to the topics." == undo.why


def test_after_a_reset_of_paused_partitions_comes_a_resume() -> None:
    """They stay paused, whoever paused them."""
    steps = [*follow_ups(plan_for("payments"), snapshot(HELD), WHERE, undo="r1", held=())]

    assert ["Resume", "Undo", "Next: check the group"] == [step.button for step in steps]
