"""What is told of interrupted runs."""

from datetime import UTC, datetime

import pytest
from applications import Applications
from idle_groups import idle_group
from operators import Operator

from toolkit.errors import StateFileError
from toolkit.journeys.change.planned_change import PlannedChange
from toolkit.journeys.reset import target
from toolkit.operate.orphaned_holds import still_withheld
from toolkit.report.display import capture_outputs
from toolkit.storage import audit
from toolkit.storage.hold_files import list_holds
from toolkit.storage.undo_records import list_runs, write_undo_record

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


def test_interrupted_runs_found_while_applying_are_in_the_outcome(change: PlannedChange) -> None:
    """They were not looked for before, and are reported once."""
    decision = change.decide(
        dry_run=False, approve=change.fingerprint, reason="a test", overrides=["keeps-committing"]
    )

    outcome = decision.apply()

    assert outcome.is_done
    assert [RUN] == [notice.run_id for notice in outcome.notices]


def test_planning_without_access_to_the_state_folder(
    operator: Operator, apps: Applications
) -> None:
    """The plan says what was not checked; the audit log and undo say why they have nothing."""
    group, _ = idle_group(apps, 7)
    operator.state.mkdir(parents=True)
    (operator.state / "holds").touch()  # for root, nothing else cannot be read
    why = "holds cannot be read: Not a directory"

    change = operator.session.reset([group], to=target("to-offset", "3"))

    assert "not looked for interrupted runs and holds without a keeper" in shown(change).lower()
    assert why in shown(change)
    assert frozenset() == still_withheld(operator.cluster, group, operator.state)
    for look in (audit.has_log, list_runs, list_holds):
        with pytest.raises(StateFileError, match=why):
            look(operator.state)
