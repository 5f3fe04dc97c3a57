"""Somebody who looks at widgets, and a plan to look at."""

import pytest
from plans_for_review import plan_for

from toolkit.plan import Plan


@pytest.fixture(autouse=True)
def somebody_is_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let widgets be live, however this test run was started."""
    monkeypatch.delenv("OFFSETBOOK_HEADLESS", raising=False)


@pytest.fixture
def plan() -> Plan:
    return plan_for("payments")
