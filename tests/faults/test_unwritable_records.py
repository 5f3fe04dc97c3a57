"""Full disks: what cannot be recorded is not done, and what was done is found again."""

import resource

import pytest
from payment_groups import AT_0, AT_7, OperatorProcess, PaymentGroups

from toolkit.errors import StateFileError
from toolkit.operate.reconcile_runs import reconcile_runs
from toolkit.storage.undo_records import list_runs

pytestmark = pytest.mark.faults("files cannot be written")


def limit_files(running: OperatorProcess, size: int) -> None:
    """Let no file of an operator's process grow beyond a size, which is a full disk to it."""
    resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.parametrize("name", [".", "locks", "runs", "audit.jsonl", "audit.reserves"])
def test_nothing_is_changed_without_records(payments: PaymentGroups, name: str) -> None:
    """If one of the records of a run cannot be written, the run does not start."""
    path = payments.operator.state / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if name == "audit.jsonl":
        path.mkdir()
    else:
        path.touch()

    with pytest.raises(StateFileError, match=str(path)):
        payments.operator.apply(payments.reset())

    assert payments.at(AT_7) == payments.held


def test_the_intent_does_not_fit(payments: PaymentGroups) -> None:
    """If the audit log cannot take the intent, nothing is changed and the log is as it was."""
    operator, (first, *others) = payments.operator, payments.names
    operator.apply(operator.reset(first, to=5))
    before, held = operator.log, payments.held
    with payments.before_intent(operator.reset(*others)) as running:
        limit_files(running, (operator.state / "audit.jsonl").stat().st_size + 10)
    code, last_line = running.end()

    assert 1 == code
    assert last_line.startswith(f"StateFileError: {operator.state}")
    assert (before, held) == (operator.log, payments.held)
    assert [] == reconcile_runs(operator.cluster, operator.state).known


def test_the_outcome_does_not_fit(payments: PaymentGroups) -> None:
    """If the disk is full when a run ends, the error names it, and the next command reconciles."""
    operator, running = payments.operator, payments.begin(steps=4)
    (run_id,) = list_runs(operator.state)
    limit_files(running, (operator.state / "audit.jsonl").stat().st_size)

    code, last_line = running.end()

    assert 4 == code
    assert f"run {run_id} finished (4 done), but its outcome could not be written" in last_line
    assert payments.at(AT_0) == payments.held
    assert ["intent"] == payments.events
    (cut_off,) = reconcile_runs(operator.cluster, operator.state).known
    assert (run_id, "4 done") == (cut_off.outcome.run_id, cut_off.outcome.summary)
    assert ["intent", "found"] == payments.events
