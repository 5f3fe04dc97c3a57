"""Full disks: what cannot be recorded is not done, and what was done is found again."""

from __future__ import annotations

import resource
from collections.abc import Callable
from typing import Any

import pytest
from applications import eventually
from operators import Operator

from toolkit.errors import StateFileError
from toolkit.model import TopicPartition
from toolkit.operate.reconcile_runs import reconcile_runs
from toolkit.plan import Position
from toolkit.storage.formats.file_lock import exclusively
from toolkit.storage.undo_records import list_runs

pytestmark = pytest.mark.faults("files cannot be written")

THERE, BACK = Position(7), Position(0, 0)
StartOperator = Callable[..., Any]


def limit_files(running: Any, size: int) -> None:
    """Let no file of an operator's process grow beyond a size, which is a full disk to it."""
    resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.parametrize("name", [".", "locks", "runs", "audit.jsonl", "audit.reserves"])
def test_nothing_is_changed_without_records(
    operator: Operator, groups: list[str], orders: TopicPartition, name: str
) -> None:
    """Where one of the things that a run leaves behind cannot be written, it does not begin."""
    path = operator.state / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if name == "audit.jsonl":
        path.mkdir()
    else:
        path.touch()

    with pytest.raises(StateFileError, match=str(path)):
        operator.apply(operator.reset(*groups))

    assert {group: {orders: THERE} for group in groups} == operator.held(*groups)


def test_the_intent_fits_no_more(
    operator: Operator, start_operator: StartOperator, groups: list[str], orders: TopicPartition
) -> None:
    """Where the audit log cannot take the intent, nothing is changed and the log is as it was."""
    operator.apply(operator.reset(groups[0], to=5))
    before, log = operator.log, operator.state / "audit.jsonl"
    with exclusively(operator.state / "audit.lock"):
        running = start_operator(operator, operator.reset(*groups[1:]))
        eventually(lambda: len(list_runs(operator.state)) > 1)  # about to write its intent
        limit_files(running, log.stat().st_size + 10)
    code, said = running.end()

    assert 1 == code
    assert said.startswith(f"StateFileError: {operator.state}")
    assert before == operator.log
    assert {group: {orders: THERE} for group in groups[1:]} == operator.held(*groups[1:])
    assert [] == reconcile_runs(operator.cluster, operator.state).known


def test_the_outcome_fits_no_more(
    operator: Operator, start_operator: StartOperator, groups: list[str], orders: TopicPartition
) -> None:
    """Where the disk is full when a run ends, it is named, and the next command settles it."""
    running = start_operator(operator, operator.reset(*groups))
    running.after_step(4)
    (run_id,) = list_runs(operator.state)
    limit_files(running, (operator.state / "audit.jsonl").stat().st_size)

    code, said = running.end()

    assert 4 == code
    assert f"run {run_id} finished (4 done), but its outcome could not be written" in said
    assert {group: {orders: BACK} for group in groups} == operator.held(*groups)
    assert ["intent"] == [str(entry.event) for entry in operator.log]
    (cut_off,) = reconcile_runs(operator.cluster, operator.state).known
    assert (run_id, "4 done") == (cut_off.outcome.run_id, cut_off.outcome.summary)
    assert ["intent", "found"] == [str(entry.event) for entry in operator.log]
