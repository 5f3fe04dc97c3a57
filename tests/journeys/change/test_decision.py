"""What an approval approves, compared with a plan."""

import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from plans_for_review import plan_for
from workspaces import parameters_of

from toolkit.errors import UsageError
from toolkit.journeys.change.checked_plan import APPROVAL
from toolkit.journeys.change.decision import Decision
from toolkit.journeys.change.planned_change import PlannedChange
from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.model import Cluster, Snapshot
from toolkit.plan import ConclusionStatus, Finding, Intent, Plan, Severity
from toolkit.plan.approvals import Approval, Limits
from toolkit.report.display import capture_outputs
from toolkit.report.plan_inputs import NotebookParameters
from toolkit.report.run_command import NotebookCall
from toolkit.runner.notebooks import find_notebook
from toolkit.runner.parameters import read_parameters

PLAN = plan_for("payments")
EMPTY = replace(PLAN, steps=())
SKIPS = Finding("skips-unread-records", Severity.BLOCK, "5 records", "payments")
LIVE = Finding("group-live", Severity.BLOCK, "it is Stable", "payments")
NOTE = Finding("no-commit", Severity.NOTE, "nothing is committed", "payments")


def change(plan: Plan, *findings: Finding) -> PlannedChange:
    """Return a plan of which the guard rails found this; no cluster is asked anything."""
    access = ClusterAccess(Cluster("eu", "127.0.0.1:1"), Path("nowhere"))
    facts = Snapshot(plan.cluster, plan.cluster_id, plan.made_at, (), (), {})
    planned = PlannedChange(access=access, plan=plan, facts=facts)
    vars(planned)["findings"] = findings
    return planned


def decide(plan: Plan, *findings: Finding, **given: Any) -> Decision:
    """Return what is decided with these parameters, and dry run off."""
    return change(plan, *findings).decide(**{"dry_run": False, **given})


@pytest.mark.parametrize("separator", ["-", " ", ":", ""])
def test_the_fingerprint_of_the_plan_approves_it(separator: str) -> None:
    """With dry run off, the plan's fingerprint, however separated, and a reason approve it."""
    approve = PLAN.fingerprint.replace("-", separator).upper()
    decision = decide(PLAN, NOTE, approve=approve, reason="a poison record")

    assert Approval(PLAN.fingerprint, "a poison record") == decision.approval
    assert (PLAN, (NOTE,)) == (decision.plan, decision.findings)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "not approved"),
        ({"approve": "0123456789abcdef"}, "the approval is for plan 0123456789abcdef"),
        ({"approve": PLAN.fingerprint, "reason": " "}, "no reason given"),
        ({"approve": PLAN.fingerprint, "reason": "..."}, "no reason given"),
    ],
)
def test_anything_else_does_not(given: dict[str, str], why: str) -> None:
    """Without the fingerprint, with another one, or without a reason, the plan is blocked."""
    decision = decide(PLAN, **{"reason": "why", **given})

    assert (None, ConclusionStatus.BLOCKED) == (decision.approval, decision.ending)
    assert why in decision.message


def test_a_dry_run_goes_before_every_approval() -> None:
    """As long as it is a dry run, which is the default, no fingerprint makes it apply anything."""
    decision = change(PLAN).decide(approve=PLAN.fingerprint, reason="why")

    assert (None, ConclusionStatus.DONE) == (decision.approval, decision.ending)
    assert "dry run: nothing was changed" == decision.message
    assert decision.apply().outcome is None


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_guard_rail_blocks(*, dry_run: bool) -> None:
    """What a guard rail objects to is blocked, in a dry run too, and the rules are named."""
    approval = {"dry_run": dry_run, "approve": PLAN.fingerprint, "reason": "why"}

    decision = decide(PLAN, SKIPS, LIVE, NOTE, **approval)

    assert (None, ConclusionStatus.BLOCKED) == (decision.approval, decision.ending)
    assert "blocked by group-live, skips-unread-records: nothing was changed" == decision.message
    assert ("group-live", "skips-unread-records") == decision.blocked_by


def test_an_override_is_part_of_the_approval() -> None:
    """What is overridden does not block; a rule that holds always, or none, is a wrong request."""
    given = {"approve": PLAN.fingerprint, "reason": "why", "overrides": [SKIPS.rule]}

    assert (SKIPS.rule,) == getattr(decide(PLAN, SKIPS, **given).approval, "overrides", None)
    for rule in ("group-live", "no-such-rule"):
        with pytest.raises(UsageError, match=rule):
            decide(PLAN, overrides=[rule])


def test_nothing_to_do_needs_no_approval() -> None:
    """A plan without steps is done, however it was approved."""
    decision = decide(EMPTY)

    assert (None, ConclusionStatus.DONE) == (decision.approval, decision.ending)
    assert "nothing to do" == decision.message


@pytest.mark.parametrize("intent", [Intent.PAUSE, Intent.RESUME, Intent.RESET])
def test_titles_of_a_plan_hold_after_the_change(intent: Intent) -> None:
    """It stays on the page, so no title says that something is so now."""
    with capture_outputs() as shown:
        change(replace(PLAN, intent=intent))._ipython_display_()

    said = "\n".join(str(data["text/plain"]) for data in shown)
    assert "The groups when this was planned\nNo matching group." in said
    is_hold = intent is not Intent.RESET
    assert ("Paused partitions when this was planned\nNone." in said) is is_hold
    assert not re.search(r"\b(now|is paused|report)\b", said)


def test_a_standing_approval_carries_its_limits() -> None:
    """Within limits, any plan is approved by its own fingerprint together with the limits."""
    given = {"reason": "nightly", "limits": ("max_groups=1", "max_partitions=5")}
    approval = decide(PLAN, approve="within limits", **given).approval

    assert Approval(PLAN.fingerprint, "nightly", (), limits=Limits(1, 5)) == approval


CHANGING = ("30", "40", "50", "52", "60", "61", "70")
OTHER: dict[type, Any] = {str: "other", bool: True, int: 3, list: ["one", "two"]}


@pytest.mark.parametrize("number", CHANGING)
def test_the_command_names_every_edited_parameter(number: str) -> None:
    """What differs from the package's notebook is in the command, whatever is saved in a copy."""
    path = find_notebook(number)
    declared = read_parameters(path)
    edited = {
        p.name: p.type.choices[-1] if p.type.choices else OTHER[type(p.default)]
        for p in declared
        if p.name not in APPROVAL
    }
    edited |= {"pause_for": ""} if number == "40" else {}  # which does not mean the default
    planned = change(PLAN)
    kernel = edited | {"dry_run": True, "approve": "", "reason": "", "overrides": [], "limits": []}
    planned.access.notebook_parameters = NotebookParameters(
        path.stem, {p.name: p.default for p in declared}, kernel
    )
    vars(planned)["call"] = NotebookCall(path.stem)

    notebook, given = parameters_of(planned.decide().command)

    assert path.stem == notebook
    where = {"cluster", "fleet_file", "state"}  # these are the session's
    assert {n: v for n, v in edited.items() if n not in where} == {
        n: v for n, v in given.items() if n not in where | APPROVAL
    }


def test_a_choice_below_the_parameters_becomes_a_parameter() -> None:
    """Groups of a forecast, or a choice on a board, may differ in the next run."""
    planned = change(PLAN)
    declared = {"groups": [], "topics": [], "rescue": True}
    planned.access.notebook_parameters = NotebookParameters(
        "30_expiry_forecast", declared, dict(declared)
    )
    asked = {"groups": ("payments",), "topics": ()}
    vars(planned)["call"] = NotebookCall("30_expiry_forecast", asked)

    with capture_outputs() as shown:
        planned.decide()._ipython_display_()

    assert "approve and reason, groups = ['payments'] among the parameters" in unescape(str(shown))
