"""The page on SQL over the fleet: what it shows runs, and finds the ten worst groups of a week."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from fleet_pages import DUCKDB, QUERY, SPARK
from stored_runs import store

from toolkit.spark.history import RUNS, History
from toolkit.spark.schemas import RESULTS

COLUMNS = ["group", "runs", "unhealthy", "time_lag_s", "lag", "lost"]


def shown(block: str, name: str) -> Any:
    """Run a block of the page, and return a variable of it."""
    names: dict[str, Any] = {}
    exec(QUERY + block, names)  # noqa: S102 - the page is ours
    return names[name]


@pytest.fixture
def week(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """
    Store four runs, the first before the week and the last not complete; return the worst groups.

    Group n is healthy but in the runs before the last n % 3; group 11 is never looked at before
    the last complete run.
    """
    monkeypatch.chdir(tmp_path)
    history, now = History("runs/history"), datetime.now(UTC)
    status = ["OK", "STOP"], ["HELD", "STALL"], ["UNSUBSCRIBED", None], ["WARN", "ERR"]
    for number, at in enumerate((now - timedelta(days=8), now - timedelta(days=6), now, now)):
        rows = [
            {
                "cluster": "eu",
                "group": f"g{group:02}",
                "worst_status": status[number][group % 3 >= number],
                "lag": 100 * number + group,
                "time_lag_s": None if group == 4 else float(group // 3),
                "lost": number,
            }
            for group in range(12)
            if (group, number) != (11, 1)
        ]
        found = {"groups": pa.Table.from_pylist(rows, RESULTS["groups"])}
        store(history, f"r{number}", at, found)
    (Path("runs/history") / RUNS / "_delta_log/00000000000000000004.json").unlink()
    return [
        ("g11", 1, 1.0, 3.0, 211, 2),
        ("g08", 2, 1.0, 2.0, 208, 2),
        ("g05", 2, 1.0, 1.0, 205, 2),
        ("g02", 2, 1.0, 0.0, 202, 2),
        ("g10", 2, 0.5, 3.0, 210, 2),
        ("g07", 2, 0.5, 2.0, 207, 2),
        ("g01", 2, 0.5, 0.0, 201, 2),
        ("g04", 2, 0.5, None, 204, 2),
        ("g09", 2, 0.0, 3.0, 209, 2),
        ("g06", 2, 0.0, 2.0, 206, 2),
    ]


def rows(worst: pd.DataFrame) -> list[tuple[Any, ...]]:
    found = worst[COLUMNS].astype(object).where(worst[COLUMNS].notna(), None)
    return [tuple(row) for row in found.itertuples(index=False)]


def test_duckdb_finds_the_worst_groups_of_a_week(week: list[tuple[Any, ...]]) -> None:
    """Of complete runs of the last seven days, by the share that was unhealthy, then time lag."""
    assert week == rows(shown(DUCKDB, "worst"))


@pytest.mark.slow("one Spark job")
@pytest.mark.usefixtures("session")
def test_spark_finds_the_worst_groups_of_a_week(week: list[tuple[Any, ...]]) -> None:
    """The same query finds the same."""
    assert week == rows(shown(SPARK, "worst"))
