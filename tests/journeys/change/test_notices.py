"""What comes after a change, and what is told of interrupted runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from applications import Applications
from facts import idle, live, member, snapshot
from idle_groups import idle_group
from operators import Operator
from plans_for_review import plan_for
from workspaces import parameters_of

from toolkit.journeys.change.planned_change import PlannedChange
from toolkit.journeys.reset import target
from toolkit.model import TopicPartition
from toolkit.plan import Intent
from toolkit.report.display import capture_outputs
from toolkit.report.follow_ups import follow_ups
from toolkit.runner.notebooks import find_notebook
from toolkit.runner.parameters import check_parameters, read_parameters
from toolkit.storage import audit
from toolkit.storage.undo_records import write_undo_record

WHERE = {"cluster": "eu", "fleet_file": "fleet.yaml", "state": "state"}
HELD = live("payments", replace(member("orders"), holds=(TopicPartition("orders", 0),)))
UNDO, CHECK = ("70_undo", {"run": "r1"}), ("90_troubleshoot_group", {"groups": ["payments"]})
RESUME = ("40_pause_partitions", {"action": "resume", "groups": ["payments"]})
MOVE = ("50_reset_offsets", {"groups": ["payments"], "topics": ["orders:0"], "mode": "to-offset"})
LOG = ("80_audit_review", {"groups": ["payments"]})


@pytest.mark.parametrize(
    ("intent", "is_held", "undo", "expected"),
    [
        (Intent.RESET, False, "r1", [UNDO, CHECK]),
        (Intent.RESET, False, "", [CHECK]),
        (Intent.DELETE_GROUPS, False, "r1", [UNDO, LOG]),
        (Intent.PAUSE, True, "", [RESUME, MOVE]),
    ],
)
def test_the_steps_after_a_change(
    *, intent: Intent, is_held: bool, undo: str, expected: list[tuple[str, dict[str, Any]]]
) -> None:
    """Each is a notebook with its parameters, which it takes, and a command that does the same."""
    plan = replace(plan_for("payments"), intent=intent)
    steps = [*follow_ups(plan, snapshot(idle("payments")), WHERE, undo=undo, is_held=is_held)]

    assert [(name, WHERE | given) for name, given in expected] == [
        (step.notebook, step.parameters) for step in steps
    ]
    for step in steps:
        declared = read_parameters(find_notebook(step.notebook))
        check_parameters(declared, step.parameters, notebook=step.notebook)
        assert (step.notebook, step.parameters) == parameters_of(step.command)


def test_what_was_moved_while_it_is_paused_is_resumed_next() -> None:
    """A reset of paused partitions leaves them paused, whoever paused them."""
    steps = [*follow_ups(plan_for("payments"), snapshot(HELD), WHERE, undo="r1", is_held=False)]

    assert ["Resume", "Undo", "Next: check the group"] == [step.button for step in steps]


RUN = "20260301T120000Z-0123"


@pytest.fixture
def change(operator: Operator, apps: Applications) -> PlannedChange:
    """Return a change on a cluster where an earlier run was interrupted after its intent."""
    group, _ = idle_group(apps, 7)
    plan = operator.reset(group)
    write_undo_record(operator.state, RUN, plan)
    run = audit.RunInfo(RUN, "alice", "desk", "a replay", ())
    audit.append(operator.state, audit.intent_entry(plan, run, datetime.now(UTC)))
    return operator.session.reset([group], to=target("to-offset", "3"))


def shown(thing: PlannedChange) -> str:
    """Return the text of all that a change shows."""
    with capture_outputs() as data:
        thing._ipython_display_()
    return " ".join(str(one.get("text/plain")) for one in data)


def test_a_notebook_shows_it_once(operator: Operator, change: PlannedChange) -> None:
    """The plan of a notebook begins with it, and with the command that undoes it; once."""
    told = shown(change)

    assert f"Run {RUN} (reset " in told
    assert "was interrupted: 1 not tried" in told
    assert f"offsetbook run 70_undo -p cluster={operator.cluster.name} -p run={RUN}" in told
    again = operator.session.reset(change.plan.group_ids, to=target("to-offset", "3"))
    assert "was interrupted" not in shown(again)


def test_what_is_found_while_applying_is_in_the_outcome(change: PlannedChange) -> None:
    """Nobody looked before: the outcome says it, so that it is not lost."""
    decision = change.decide(
        dry_run=False, approve=change.fingerprint, reason="a test", overrides=["keeps-committing"]
    )

    outcome = decision.apply()

    assert outcome.is_done
    assert [RUN] == [notice.run_id for notice in outcome.notices]
