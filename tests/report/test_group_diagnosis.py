"""What the diagnosis of a group concludes."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from facts import live, member, snapshot

from toolkit.report.group_diagnosis import GroupDiagnosis, GroupSurroundings
from toolkit.report.next_step_list import show_steps
from toolkit.storage.conclusion_file import FILE_VARIABLE, read_conclusion


def diagnosis(*lags: int | None) -> GroupDiagnosis:
    """Return the diagnosis of a group that is stuck on every partition of one topic."""
    group = live("payments", member("orders"))
    rows = {
        "topic": "orders",
        "partition": pd.array(range(len(lags)), "Int64"),
        "verdict": "stuck",
        "why": "no commit for 5 min",
        "lag": pd.array(lags, "Int64"),
        "committed": pd.array([7] * len(lags), "Int64"),
        "log_end": pd.array([100] * len(lags), "Int64"),
        "first_unread": pd.array([7] * len(lags), "Int64"),
    }
    around = GroupSurroundings({}, Path(), lambda _: None, lambda _: None, show_steps)  # type: ignore[arg-type, return-value]  # no records are read
    return GroupDiagnosis(snapshot(group), group, pd.DataFrame(rows), pd.DataFrame(), around)


@pytest.mark.parametrize(
    ("lags", "words"),
    [
        ((40, 50), "lag 90"),
        ((90, None), "lag at least 90 (1 unknown)"),
        ((None, None), "lag unknown"),
        ((), "no committed offsets"),
    ],
)
def test_a_partly_known_lag_is_a_lower_bound(lags: tuple[int | None], words: str) -> None:
    """The log of a partition without a leader is not read, and its lag is unknown."""
    assert diagnosis(*lags).summary.endswith(f"; {words}")


def test_every_stuck_partition_is_a_finding(
    tmp_path: Path, shown: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three partitions of one topic are three, as in the table above."""
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "conclusion"))

    diagnosis(10, 20, 30).conclude()

    assert 3 == read_conclusion(tmp_path / "conclusion").counts["findings"]
    assert "Partitions without progress" in shown.text
