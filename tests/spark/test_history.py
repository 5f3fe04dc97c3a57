"""The history keeps every run once and whole, whatever dies, and gives old rows in today's form."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from stored_runs import store, stored

from toolkit.errors import StateFileError, UsageError
from toolkit.spark import history as module
from toolkit.spark.history import (
    LAG_DAYS,
    RUNS,
    History,
    HistoryRun,
    RunFiles,
    paths_in,
    read_lag_history,
)

# Each small read and write goes through several threads of delta-rs, which wait for each other: on
# a machine with thirty busy processes it takes a hundred times as long.
pytestmark = pytest.mark.timeout(600)

DAY = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
ONE, TWO, THREE = date(2026, 3, 1), date(2026, 3, 2), date(2026, 3, 3)
LAG = pa.schema({"cluster": pa.string(), "group": pa.string(), "lag": pa.int64()})
NOTES = pa.schema({"cluster": pa.string(), "problem": pa.string()})
TABLES = {"partitions": LAG, "problems": NOTES}
HOSTILE = [
    *("../x", "..", "a=b", "ü /", "", " ", "\t", "__HIVE_DEFAULT_PARTITION__", "~", "%2F"),
    *("*?[]{}", "x~y+z%", "x'y", "EU", "eu", "007", "null", "two\nlines", "\u200b", "_hidden"),
    *("l" * 400, "l" * 401),
]


@pytest.fixture
def root(tmp_path: Path) -> str:
    """Return a folder for a history, with a name that has odd characters."""
    return str(tmp_path / "über #all?")


@pytest.fixture
def history(root: str) -> History:
    return History(root, TABLES)


def found(*clusters: str, lag: int = 1) -> dict[str, pa.Table]:
    rows = [{"cluster": name, "group": "g", "lag": lag} for name in clusters]
    notes = [{"cluster": name, "problem": "none"} for name in clusters[:1]]
    return {
        "partitions": pa.Table.from_pylist(rows, schema=LAG),
        "problems": pa.Table.from_pylist(notes, schema=NOTES),
    }


def rows(table: pa.Table, *names: str) -> list[tuple[Any, ...]]:
    wanted = names or ("run_id", "cluster", "lag")
    return sorted(tuple(row[n] for n in wanted) for row in table.to_pylist())


def lags(history: History, **which: Any) -> list[tuple[Any, ...]]:
    """Return the rows of complete runs: run, cluster and lag."""
    return rows(stored(history, "partitions", **which))


def files_in(root: str) -> int:
    """Return how many Parquet files with rows of the two tables there are."""
    return sum(1 for path in Path(root).glob("p*/day=*/*.parquet"))


@pytest.fixture
def five_runs(history: History) -> list[tuple[str, str, int]]:
    """Store five runs, two on the first day and three on the second, and return their rows."""
    for number in range(5):
        assert store(history, f"r{number}", DAY + number * 8 * HOUR, found("a", "b", lag=number))
    return [(f"r{number}", cluster, number) for number in range(5) for cluster in ("a", "b")]


def test_other_programs_find_rows_by_any_column(history: History, root: str) -> None:
    """Files name the least of one column only; tables say so."""
    store(history, "one", DAY, found("a", lag=7))
    store(history, "other", DAY + HOUR, found("b", lag=7))
    dataset = DeltaTable(f"{root}/partitions").to_pyarrow_dataset()

    found_rows = dataset.to_table(filter=pc.field("lag") == 7)
    assert ["a", "b"] == sorted(found_rows["cluster"].to_pylist())
    assert 0 == dataset.count_rows(filter=pc.field("lag") == 8)


def test_any_cluster_name_comes_back_and_can_be_asked_for(history: History) -> None:
    """Names that a file system would take for something else stay what they are, one by one."""
    store(history, "all", DAY, found(*HOSTILE))
    for number, name in enumerate(HOSTILE):
        store(history, f"r{number}", DAY, found(name))

    for _ in range(2):
        assert sorted((n,) for n in 2 * HOSTILE) == rows(stored(history, "partitions"), "cluster")
        for names in (["", "EU", "nobody"], ["../x", "ü /", "l" * 400], ["x'y"], ["~"], ["nobody"]):
            only = rows(stored(history, "partitions", clusters=names), "cluster")
            assert sorted(2 * [(name,) for name in names if name in HOSTILE]) == only
        history.compact(before=TWO)


def test_a_run_is_kept_once(history: History) -> None:
    """The same run written again changes nothing; other runs stay beside it."""
    assert store(history, "one", DAY, found("a", lag=1))
    assert store(history, "two", DAY + HOUR, found("a", lag=2))
    assert not store(history, "one", DAY + HOUR, found("a", "b", lag=3))

    assert [("one", "a", 1), ("two", "a", 2)] == lags(history)
    assert 2 == DeltaTable(f"{history.root}/partitions").count()
    assert [("one", DAY), ("two", DAY + HOUR)] == [run[:2] for run in history.runs()]


def test_of_one_run_that_is_stored_twice_at_once_one_is_kept(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are past the look at the runs there are when the first of them is published."""
    insert = History._insert

    def meanwhile(self: History, row: pa.Table) -> None:
        monkeypatch.setattr(History, "_insert", insert)
        assert store(History(self.root, TABLES), "one", DAY, found("a", lag=2))
        insert(self, row)

    monkeypatch.setattr(History, "_insert", meanwhile)
    assert not store(history, "one", DAY, found("a", lag=1))
    assert [("one", "a", 2)] == lags(history)


def test_runs_side_by_side_do_not_disturb_each_other(root: str) -> None:
    """Several that write at the same time, the first of all too, find their rows and no others."""
    names = [f"r{n}" for n in range(6)]

    def write(name: str) -> bool:
        return store(History(root, TABLES), name, DAY, found(name, "both"))

    with ThreadPoolExecutor(3) as pool:
        assert [True] * 6 == list(pool.map(write, names))
        assert [False] * 6 == list(pool.map(write, names))
    expected = [(name, cluster, 1) for name in names for cluster in (name, "both")]
    assert sorted(expected) == lags(History(root, TABLES))


def test_files_that_only_a_worker_sees_are_not_published(history: History, tmp_path: Path) -> None:
    """A worker without the folder is an error; no table gets a file of another disk."""
    store(history, "before", DAY, found("a"))
    run, some = history.begin("r", DAY), found("b")["partitions"]
    with pytest.raises(StateFileError, match=r"writing .*/nowhere/partitions"):
        RunFiles(str(tmp_path / "nowhere"), run).add("partitions", some)
    elsewhere = History(str(tmp_path / "elsewhere"), TABLES)
    elsewhere.begin("r", DAY)
    files = RunFiles(elsewhere.root, run)
    files.add("partitions", some)
    with pytest.raises(StateFileError, match="does not see the same folder"):
        history.publish(run, files.close())

    assert [("before", "a", 1)] == lags(history)
    assert ["before"] == [one.run_id for one in history.runs()]


class Died(BaseException):
    """The process is gone."""


STEPS = [
    (module, "_commit"),
    *((History, name) for name in ("_prepared", "_insert", "_compact", "_delete", "_vacuum")),
]


def every_step(monkeypatch: pytest.MonkeyPatch, act: Callable[[int], Any]) -> Iterator[int]:
    """Do something that dies before its first step, after it, before its second and so on."""
    for step in range(1, 200):
        left = [step]

        def dying(original: Callable[..., Any], left: list[int] = left) -> Callable[..., Any]:
            def change(*arguments: Any) -> Any:
                for last in (True, False):
                    left[0] -= 1
                    if not left[0]:
                        raise Died
                    if last:
                        result = original(*arguments)
                return result

            return change

        with monkeypatch.context() as patched:
            for where, name in STEPS:
                patched.setattr(where, name, dying(getattr(where, name)))
            try:
                act(step)
            except Died:
                yield step
                continue
        return


def test_a_run_that_dies_is_stored_whole_or_not_at_all(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each step at which it can die; writing it again helps."""
    store(history, "other", DAY, found("a", lag=0))

    def write(step: int) -> None:
        store(history, f"r{step}", DAY, found("a", "b", lag=step))

    steps = []
    for step in every_step(monkeypatch, write):
        steps.append(step)
        mine = [row for row in lags(history) if row[0] == f"r{step}"]
        notes = [
            r for r in rows(stored(history, "problems"), "run_id", "cluster") if r[0] != "other"
        ]
        assert (len(mine), [r[0] for r in notes].count(f"r{step}")) in {(2, 1), (0, 0)}
        write(step)
        whole = [(f"r{step}", "a", step), (f"r{step}", "b", step)]
        assert whole == [row for row in lags(history) if row[0] == f"r{step}"]
    assert len(steps) >= 2 * len(("partitions", "problems", RUNS))


CHILD = """
import sys, time
from pathlib import Path
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from datetime import UTC, datetime
from toolkit.spark.history import History, RunFiles

root, sign = sys.argv[1:]
NAMES = pa.schema({"cluster": pa.string()})
history = History(root, {"partitions": NAMES, "groups": NAMES})

def slowly(*_):
    Path(sign).touch()
    time.sleep(600)

history._insert = slowly
run = history.begin("killed", datetime(2026, 3, 1, tzinfo=UTC))
files = RunFiles(root, run)
for table in ("partitions", "groups"):
    files.add(table, pa.table({"cluster": ["a"]}))
history.publish(run, files.close())
"""


def test_a_run_that_is_killed_leaves_nothing_to_see(history: History, tmp_path: Path) -> None:
    """A process killed when both tables are written, and not the run, has left none of them."""
    sign = tmp_path / "writing"
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, history.root, str(sign)], start_new_session=True
    )
    try:
        while child.poll() is None and not sign.exists():
            pass
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()

    assert sign.exists()
    assert files_in(history.root)
    assert ([], []) == (history.runs(), lags(history))
    assert store(history, "killed", DAY, found("a", lag=7))
    assert [("killed", "a", 7)] == lags(history)


def test_rows_of_older_columns_are_read_in_todays_form(root: str) -> None:
    """New columns are null in older rows, dropped ones stay, also in days that were compacted."""
    points = pa.list_(pa.struct({"at": pa.int64(), "n": pa.int64()}))
    versions: list[Mapping[str, pa.DataType]] = [
        {"cluster": pa.string(), "lag": pa.int64(), "dropped": pa.string()},
        {"cluster": pa.string(), "rate": pa.float64(), "lag": pa.int64(), "points": points},
    ]
    row = {"dropped": "old", "rate": 0.5, "points": [{"at": 3, "n": 4}]}
    for number, columns in enumerate(versions):
        schema = pa.schema(columns)
        some = [{"cluster": "ab"[number], "lag": number, **row}]
        lags = {"lags": pa.Table.from_pylist(some, schema=schema)}
        store(History(root, {"lags": schema}), "ab"[number], DAY, lags)
    every = pa.schema({**versions[0], **versions[1]})
    expected = [("a", 0, "old", None, None), ("b", 1, None, 0.5, row["points"])]

    for columns in versions:
        history = History(root, {"lags": pa.schema(columns)})
        found_rows = pa.concat_tables(history.rows("lags", every))
        assert expected == rows(found_rows, *every.names)
        history.compact(before=TWO)
    assert [ONE] != History(root, {"lags": pa.schema(columns)}).compact(before=TWO)


def test_a_column_that_became_something_else_is_an_error_that_names_it(root: str) -> None:
    """Nothing is guessed, and the run does not begin."""
    for kind, refused in ((pa.string(), False), (pa.int64(), True)):
        columns = pa.schema({"cluster": pa.string(), "lag": kind})
        history = History(root, {"lags": columns})
        if refused:
            with pytest.raises(StateFileError, match=r"lags\.lag of the history is string, not"):
                history.begin("r", DAY)
        else:
            history.begin("r", DAY)


def test_many_files_of_a_day_become_few(
    history: History, five_runs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finished days are put together; readers that had begun go on; late runs join in."""
    many, opened = files_in(history.root), history.open("partitions")
    assert opened
    before = paths_in(opened)
    assert [ONE, TWO] == history.compact(before=THREE)
    assert [] == history.compact(before=THREE)
    assert five_runs == lags(history)
    assert ["r0", "r1", "r2", "r3", "r4"] == [one.run_id for one in history.runs()]
    assert not store(history, "r1", DAY, found("a"))

    assert store(history, "late", DAY, found("a"))
    assert [ONE] == history.compact(before=THREE)
    assert sorted([*five_runs, ("late", "a", 1)]) == lags(history)
    history.expire(keep_days=30_000, now=datetime.now(UTC))
    assert files_in(history.root) > many  # somebody may still be reading them
    assert all(Path(history.root, "partitions", one).exists() for one in before)
    monkeypatch.setattr(module, "READ_FOR", timedelta(0))
    history.expire(keep_days=30_000, now=datetime.now(UTC))
    assert 2 * 2 == files_in(history.root)
    assert sorted([*five_runs, ("late", "a", 1)]) == lags(history)


def test_putting_together_may_die_anywhere(
    history: History, five_runs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every step readers see each row once, and the next call does what is left."""
    for _ in every_step(monkeypatch, lambda _: history.compact(before=TWO)):
        assert five_runs == lags(history)
    assert [TWO] == history.compact(before=THREE)
    assert five_runs == lags(history)


def test_two_that_put_a_day_together_at_once_do_it_once(root: str, five_runs: list[Any]) -> None:
    """Of several at the same time, with a run that is stored meanwhile, no row is lost or twice."""
    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(History(root, TABLES).compact, before=THREE) for _ in range(3)]
        assert pool.submit(store, History(root, TABLES), "late", DAY, found("a")).result()
        assert any(one.result() for one in done)
    assert sorted([*five_runs, ("late", "a", 1)]) == rows(
        stored(History(root, TABLES), "partitions")
    )


def test_old_days_go_as_a_whole(
    history: History, five_runs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Days that are too old are removed with their files, and the others are left."""
    now = datetime(2026, 4, 1, 12, tzinfo=UTC)
    assert [] == history.expire(keep_days=31, now=now)
    monkeypatch.setattr(module, "READ_FOR", timedelta(0))
    assert [ONE] == history.expire(keep_days=30, now=now)

    assert five_runs[4:] == lags(history)
    assert ["r2", "r3", "r4"] == [one.run_id for one in history.runs()]
    assert 2 * 3 == files_in(history.root)
    with pytest.raises(UsageError, match="at least one day"):
        history.expire(keep_days=0, now=now)


def test_removing_may_die_anywhere(
    history: History, five_runs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was removed does not come back, and a run is there as a whole or not at all."""
    history.compact(before=THREE)
    now = datetime(2026, 4, 1, 12, tzinfo=UTC)
    for _ in every_step(monkeypatch, lambda _: history.expire(keep_days=30, now=now)):
        found = lags(history)
        assert found in [five_runs, five_runs[4:]]
        notes = rows(stored(history, "problems"), "run_id")
        assert {row[0] for row in found} == {row[0] for row in notes}
        assert {row[0] for row in found} == {run.run_id for run in history.runs()}
    assert five_runs[4:] == lags(history)


def test_files_of_dead_runs_are_removed_a_day_later(history: History) -> None:
    """Uncommitted files go once no run can be at work on them."""
    files = RunFiles(history.root, history.begin("r", DAY))
    files.add("partitions", found("a")["partitions"])
    files.close()
    (file,) = Path(history.root).glob("partitions/day=*/*.parquet")
    for age, is_left in ((timedelta(hours=23), True), (timedelta(hours=25), False)):
        at = (datetime.now(UTC) - age).timestamp()
        os.utime(file, (at, at))
        history.expire(keep_days=30_000, now=datetime.now(UTC))
        assert is_left == file.exists()


def test_reading_from_a_time_on(history: History, five_runs: list[Any]) -> None:
    """Times are exact, also in a day that was put together."""
    assert [ONE] == history.compact(before=TWO)
    since, before = DAY + 8 * HOUR, DAY + 24 * HOUR

    assert five_runs[2:] == lags(history, since=since)
    assert five_runs[2:6] == lags(history, since=since, before=before)


def test_the_lag_of_groups_is_of_their_own_runs(root: str) -> None:
    """Of the groups that are asked for, up to a run, whatever was stored of others and later."""
    today = LAG.append(pa.field("unknown_lag_partitions", pa.int64()))
    for number, clusters in enumerate(("eu", "eu us", "us", "eu")):
        of, lag = today if number else LAG, {"lag": number, "unknown_lag_partitions": number}
        some = [{"cluster": c, "group": g, **lag} for c in clusters.split() for g in "gh"]
        rows_now = {"groups": pa.Table.from_pylist(some, schema=of)}
        at = DAY + number * 8 * HOUR
        assert store(History(root, {"groups": of}), f"r{number}", at, rows_now)

    groups = pd.DataFrame({"cluster": ["eu"], "group": ["g"]})
    lags = read_lag_history(root, groups, until=DAY + 16 * HOUR)

    unknown = lags.pop("unknown_lag_partitions")
    assert ["cluster", "group", "lag", "taken_at"] == list(lags.columns)
    assert [("eu", "g", 0, DAY), ("eu", "g", 1, DAY + 8 * HOUR)] == sorted(
        lags.itertuples(index=False, name=None)
    )
    assert [1] == list(unknown.dropna())
    late = DAY + LAG_DAYS + 4 * HOUR
    assert [1, 3] == sorted(read_lag_history(root, groups, until=late)["lag"])


def test_many_columns_and_rows_survive(root: str) -> None:
    """Delta has statistics of the first 32 columns only; rows are found by others all the same."""
    columns = pa.schema([("cluster", pa.string()), *((f"c{n}", pa.int64()) for n in range(60))])
    history = History(root, {"wide": columns})
    for number in range(2):
        rows = [{"cluster": "a", "c59": number}]
        store(history, f"r{number}", DAY, {"wide": pa.Table.from_pylist(rows, schema=columns)})
    history.compact(before=TWO)

    assert {0, 1} == set(stored(history, "wide", clusters=["a"])["c59"].to_pylist())


def test_other_programs_read_the_tables(history: History, five_runs: list[Any]) -> None:
    """They are ordinary Delta tables: an attempt that counts is in `runs`."""
    attempts = DeltaTable(f"{history.root}/{RUNS}").to_pyarrow_table()["attempt"].to_pylist()
    table = DeltaTable(f"{history.root}/partitions").to_pyarrow_table()

    assert five_runs == rows(table)
    assert set(attempts) == set(table["attempt"].to_pylist())
    assert [HistoryRun("r0", DAY, history.runs()[0].attempt)] == history.runs()[:1]


def test_a_damaged_log_is_an_error(history: History, five_runs: list[Any]) -> None:
    """It names the table."""
    assert five_runs
    file = next(Path(history.root).glob("partitions/day=*/*.parquet"))
    content = bytearray(file.read_bytes())
    content[60] ^= 1
    file.write_bytes(content)
    with pytest.raises(StateFileError, match="/partitions"):
        stored(history, "partitions")
    log = max(Path(history.root).glob("runs/_delta_log/*.json"))
    log.write_text(log.read_text()[:-20])
    with pytest.raises(StateFileError, match="/runs"):
        history.runs()


def test_invalid_histories_are_refused(tmp_path: Path) -> None:
    """Unknown tables and other file systems."""
    refused = {"viewfs://x/y": "viewfs:// is not supported", f"{tmp_path}/a%20b": "is in its name"}
    for where, why in refused.items():
        with pytest.raises(UsageError, match=why):
            History(where, TABLES).begin("r", DAY)


def test_without_the_package_the_extra_is_named(tmp_path: Path) -> None:
    """The error has the command that installs it, before a cluster is asked or Java starts."""
    program = "import sys; sys.modules['deltalake'] = None; from toolkit.cli import main; main()"
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text("clusters:\n  none:\n    bootstrap.servers: 127.0.0.1:1\n")
    for words in (
        ["fleet-history", "runs", str(tmp_path)],
        ["fleet-lag", "--fleet", str(fleet), "--history", str(tmp_path)],
    ):
        done = subprocess.run(
            [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False
        )
        assert (1, True) == (done.returncode, "pip install 'offsetbook[history]'" in done.stderr)
