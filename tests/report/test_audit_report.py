"""The audit log as people see it: of a long one, the newest changes."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from plans_for_review import DETAILED_PLAN, NOON

from toolkit.plan import ConclusionStatus
from toolkit.report import audit_report
from toolkit.report.audit_report import AuditReport
from toolkit.storage import audit
from toolkit.storage.audit import RunInfo
from toolkit.storage.conclusion_file import FILE_VARIABLE, read_conclusion

RUN = RunInfo("", "ada", "ops-1", "INC-7")


def test_a_log_that_is_not_there_is_not_reviewed(
    tmp_path: Path, shown: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That a missing log is intact proves nothing: the state directory may be another one."""
    path = tmp_path / "conclusion"
    monkeypatch.setenv(FILE_VARIABLE, str(path))

    AuditReport(tmp_path / "state").conclude()

    assert "No audit log" in shown.text
    assert ConclusionStatus.INCOMPLETE is read_conclusion(path).ending


@pytest.mark.parametrize(
    ("at_most", "shown"), [(100, [0, 1, 2, 3]), (4, [2, 3]), (3, [3]), (1, [3])]
)
def test_of_a_long_log_the_newest_changes_are_shown(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    at_most: int,
    shown: list[int],
) -> None:
    """As many whole runs as fit in the table; the total is shown, all are counted."""
    intent = audit.intent_entry(DETAILED_PLAN, RUN, NOON)
    each = sum(len(step.changes) for step in DETAILED_PLAN.steps)
    for number in range(4):
        at = NOON + timedelta(minutes=number)
        audit.append(tmp_path, replace(intent, at=at, run=replace(RUN, run_id=f"run-{number}")))
    monkeypatch.setattr(audit_report, "ROW_CAP", at_most)
    tables: dict[str, list[str]] = {}
    monkeypatch.setattr(
        audit_report,
        "show_table",
        lambda frame, caption_text, **_: tables.update({caption_text: [*frame["run"]]}),
    )
    report = AuditReport(tmp_path)

    report.show_changes()

    ((caption, runs),) = tables.items()
    assert 2 == each
    assert [f"run-{number}" for number in shown for _ in range(each)] == runs
    assert (len(shown) < 4) == (f"of the newest {len(shown)} of 4 runs" in caption)
    assert report.summary.startswith("4 runs, 8 planned changes; 4 without an outcome, ")
    assert 8 == len(report.changes) == len(report.change_rows.rows)
