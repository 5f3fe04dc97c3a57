"""What is found out about a run that was cut off."""

from __future__ import annotations

from dataclasses import replace

import pytest
from facts import NOON
from guardrail_cases import ORDERS, plan, step
from operators import Operator

from toolkit.model import Problem, Unread
from toolkit.operate import reconcile_runs
from toolkit.plan import Action, Change
from toolkit.storage import audit


@pytest.mark.parametrize("action", [Action.HOLD, Action.RELEASE, Action.DELETE_GROUP])
def test_a_group_that_was_not_listed_tells_nothing(
    operator: Operator, monkeypatch: pytest.MonkeyPatch, action: Action
) -> None:
    """Where a broker lists no groups, it is not known what is held, and what was deleted."""
    cluster_id = operator.look("none").cluster_id
    changes = [] if action is Action.DELETE_GROUP else [Change(ORDERS, None, None)]
    made = replace(plan(step(*changes, action=action)), cluster_id=cluster_id)
    run = audit.RunInfo("a-run", "ana", "here", "a test")
    audit.append(operator.state, audit.intent_entry(made, run, NOON))
    silent = Problem(Unread.GROUPS, "broker 2 did not answer")
    monkeypatch.setattr(reconcile_runs, "list_groups", lambda _: ([], [silent]))

    found = reconcile_runs.reconcile_under_lock(operator.cluster, cluster_id, operator.state)

    assert [f"{silent.what}: {silent.why}"] == [why for _, why in found.unseen]
    assert [] == found.known
