"""The index of the audit log tells what the log tells, whatever became of it or of the log."""

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolkit.errors import StateFileError
from toolkit.model import GroupState, GroupType, TopicPartition
from toolkit.plan import (
    Action,
    Change,
    ChangeStatus,
    Intent,
    Outcome,
    Plan,
    Position,
    Result,
    Step,
    StepOutcome,
)
from toolkit.report.audit_report import change_rows
from toolkit.storage import audit
from toolkit.storage.audit import AuditEntry, RunInfo
from toolkit.storage.state_folder import Operator

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PLACE = TopicPartition("orders", 0)
GROUPS = ("bills", "payments", "ships")
CHANGED = {ChangeStatus.DONE, ChangeStatus.FAILED, ChangeStatus.NOT_CONFIRMED}
ADA, BOB = Operator("ada", "ops-1"), Operator("bob", "ops-2")


def plan_of(
    groups: tuple[str, ...],
    *,
    cluster_id: str = "c1",
    to: int = 0,
    intent: Intent = Intent.RESET,
) -> Plan:
    """Return a plan that changes a partition of each group; `to` makes it another plan."""
    change = Change(PLACE, Position(50), Position(to))
    kind = {"type": GroupType.SIMPLE, "state": GroupState.EMPTY}
    steps = tuple(Step(group, Action.COMMIT, (change,), **kind) for group in groups)
    return Plan(intent, f"{intent} {groups}", "eu", cluster_id, NOON, steps)


def intent(number: int, plan: Plan) -> AuditEntry:
    """Return the intent of run `run-NUMBER`."""
    return audit.intent_entry(plan, RunInfo(f"run-{number}", *ADA, "a test"), NOON)


def outcome(of: AuditEntry, plan: Plan, status: ChangeStatus, interrupted: str = "") -> AuditEntry:
    """Return the outcome of an intent: every change has this status."""
    steps = tuple(
        StepOutcome(step.group_id, step.action, status, "", (Result(PLACE, status),))
        for step in plan.steps
    )
    later = NOON + timedelta(seconds=1)
    ended = Outcome(of.run.run_id, plan.fingerprint, NOON, later, steps, interrupted)
    return audit.outcome_entry(of, ended)


def unfinished_in(entries: list[AuditEntry]) -> list[AuditEntry]:
    """The intents without an end, found by reading everything."""
    open_: dict[str, AuditEntry] = {}
    for entry in entries:
        if entry.event is audit.Event.INTENT:
            open_[entry.run.run_id] = entry
        else:
            open_.pop(entry.run.run_id, None)
    return list(open_.values())


def last_runs_in(
    entries: list[AuditEntry], groups: set[str], fingerprint: str, apart_from: set[Intent]
) -> list[str]:
    """The runs that matter for a plan on cluster c1, found by reading everything."""
    ends = [e for e in entries if e.cluster_id == "c1" and e.event is not audit.Event.INTENT]
    matters = [bool(e.interrupted) or e.fingerprint == fingerprint for e in ends]
    ends = ends[matters.index(True) :] if True in matters else []
    found, waiting = [], set(groups)
    for end in reversed(ends):
        if end.intent in apart_from:
            continue
        touched = {step.group_id for step in end.steps if step.status in CHANGED}
        if touched & waiting:
            found.append(end.run.run_id)
            waiting -= touched
    return found[::-1]


def spoil(state: Path, how: str) -> None:
    """Do to the index, or to the end of the log, what may happen to them."""
    index, log = state / "audit.index", state / "audit.jsonl"
    if how == "removed":
        index.unlink(missing_ok=True)
    elif how == "garbage":
        index.write_bytes(b"not a database, but long enough to look like one" * 100)
    elif how == "of another log" and log.exists():
        audit.unfinished(state)
        log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
    elif how == "torn line" and log.exists():
        with log.open("ab") as file:
            file.write(b'{"seq":9,"at":"2026')


runs = st.tuples(
    st.lists(st.sampled_from(GROUPS), min_size=1, max_size=3, unique=True),
    st.sampled_from([None, *ChangeStatus]),  # how it ended; None: not
    st.sampled_from(["", "SIGTERM"]),
    st.sampled_from(["c1", "c2"]),
    st.sampled_from([Intent.RESET, Intent.RESET, Intent.PAUSE, Intent.RESCUE]),
    st.sampled_from(["", "", "", "read", "removed", "garbage", "of another log", "torn line"]),
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    many=st.lists(runs, max_size=12),
    groups_of_plan=st.sets(st.sampled_from(GROUPS), min_size=1),
    apart_from=st.sets(st.sampled_from([Intent.PAUSE, Intent.RESCUE])),
    planned_before=st.none() | st.integers(0, 11),
)
def test_the_index_agrees_with_the_log(
    tmp_path_factory: pytest.TempPathFactory,
    many: list[tuple[list[str], ChangeStatus | None, str, str, Intent, str]],
    groups_of_plan: set[str],
    apart_from: set[Intent],
    planned_before: int | None,  # which of the runs was of the same plan
) -> None:
    """Runs without an end, and the last ones of groups; also after the index was damaged."""
    state = tmp_path_factory.mktemp("state")
    fingerprint = ""
    for number, (groups, status, interrupted, cluster_id, kind, how) in enumerate(many):
        plan = plan_of(tuple(groups), cluster_id=cluster_id, to=number, intent=kind)
        fingerprint = plan.fingerprint if number == planned_before else fingerprint
        entry = intent(number, plan)
        audit.append(state, entry)
        if status:
            audit.append(state, outcome(entry, plan, status, interrupted))
        if how == "read":
            audit.unfinished(state)
        spoil(state, how)

    entries = list(audit.read(state))
    found = audit.last_runs(
        state, "c1", groups_of_plan, fingerprint=fingerprint, apart_from=apart_from
    )
    assert unfinished_in(entries) == audit.unfinished(state)
    expected = last_runs_in(entries, groups_of_plan, fingerprint, apart_from)
    assert expected == [end.entry.run.run_id for end in found]


def test_a_line_that_was_changed_is_left_out(tmp_path: Path) -> None:
    """Also where the index was made before that; the other runs are found."""
    for number in range(3):
        audit.append(tmp_path, intent(number, plan_of(GROUPS)))
    assert 3 == len(audit.unfinished(tmp_path))
    log = tmp_path / "audit.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(lines[0] + lines[1].replace(b"payments", b"paymentz") + lines[2])

    assert ["run-0", "run-2"] == [one.run.run_id for one in audit.unfinished(tmp_path)]


def test_a_line_that_is_still_being_written(tmp_path: Path) -> None:
    """A reader may look at the very moment; the run is found when its line is whole."""
    for number in range(2):
        audit.append(tmp_path, intent(number, plan_of(GROUPS)))
    log = tmp_path / "audit.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole[:-100])
    before = audit.unfinished(tmp_path)
    log.write_bytes(whole)

    assert ["run-0"] == [one.run.run_id for one in before]
    assert ["run-0", "run-1"] == [one.run.run_id for one in audit.unfinished(tmp_path)]


def test_an_entry_of_a_newer_version_is_not_passed_over(tmp_path: Path) -> None:
    """Which groups its run has changed is not known, so that no plan may be applied."""
    plan = plan_of(GROUPS)
    entry = intent(0, plan)
    audit.append(tmp_path, entry)
    ended = outcome(entry, plan, ChangeStatus.DONE, "SIGTERM")
    newer = replace(ended, steps=[replace(ended.steps[0], status="half done")])
    audit.append(tmp_path, newer)

    for _ in range(2):
        with pytest.raises(StateFileError, match=r"entry 2.*status.*offsetbook version that wrote"):
            audit.last_runs(tmp_path, "c1", GROUPS, fingerprint=plan.fingerprint)


def test_an_index_that_cannot_be_a_file(tmp_path: Path) -> None:
    """Something else is in its place: the log is used."""
    audit.append(tmp_path, intent(0, plan_of(GROUPS)))
    (tmp_path / "audit.index").mkdir()

    assert ["run-0"] == [one.run.run_id for one in audit.unfinished(tmp_path)]


def test_several_processes_write_the_index_at_once(tmp_path: Path) -> None:
    """Each of them, and later ones, find all runs once."""
    for number in range(30):
        audit.append(tmp_path, intent(number, plan_of(GROUPS)))
    found: list[int] = []
    together = threading.Barrier(8)

    def look() -> None:
        together.wait()
        found.append(len(audit.unfinished(tmp_path)))

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [30] * 8 == found
    assert 30 == len(audit.unfinished(tmp_path))


def test_an_interrupted_run_belongs_to_its_operator(tmp_path: Path) -> None:
    """The next command finds its end, hours later; plans made since were not changed by it."""
    plan = plan_of(GROUPS)
    mine = intent(0, plan)
    ended = outcome(mine, plan, ChangeStatus.DONE, "SIGKILL")
    found = replace(ended, event=audit.Event.FOUND, at=NOON + timedelta(hours=9))
    for entry in (mine, replace(found, run=replace(found.run, who=BOB.who, host=BOB.host))):
        audit.append(tmp_path, entry)

    earlier, later = NOON - timedelta(hours=1), NOON + timedelta(hours=1)
    (run,) = audit.changed_since(tmp_path, "c1", GROUPS, earlier)
    assert (ADA.who, NOON) == (run.run.who, run.at)
    assert [] == audit.changed_since(tmp_path, "c1", GROUPS, later)
    rows = change_rows(audit.read(tmp_path))
    assert {(NOON, ADA.who)} == {(row[1], row[3]) for row in rows.rows}
