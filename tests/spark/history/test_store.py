"""The history keeps every run once and whole, whatever dies, and gives old rows in today's form."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from toolkit.errors import StateFileError, UsageError
from toolkit.spark.history.files import HistoryFiles
from toolkit.spark.history.parts import HistoryRun
from toolkit.spark.history.store import FOLDER, History, folder_of

pytestmark = pytest.mark.slow("many Spark jobs")

DAY = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
NAMES = [StructField("cluster", StringType())]
LAG = StructType([*NAMES, StructField("group", StringType()), StructField("lag", LongType())])
NOTES = StructType([*NAMES, StructField("problem", StringType())])
TABLES = {"partitions": LAG, "problems": NOTES}
HOSTILE = [
    *(
        "../x",
        "..",
        "a=b",
        "ü /",
        "",
        " ",
        "\t",
        "__HIVE_DEFAULT_PARTITION__",
        "~",
        "%2F",
        "*?[]{}",
    ),
    *("x~y+z%", "EU", "eu", "007", "null", "two\nlines", "\u200b", "_hidden", ".hidden"),
    *("l" * 400, "l" * 401),
]


@pytest.fixture
def history(session: SparkSession, tmp_path: Path) -> History:
    """Return an empty history."""
    return History(session, str(tmp_path / "history"), TABLES)


@pytest.fixture
def run(session: SparkSession) -> Callable[..., dict[str, DataFrame]]:
    """Return a function that makes what a run on some clusters found."""
    return partial(found, session)


def found(session: SparkSession, *clusters: str, lag: int = 1) -> dict[str, DataFrame]:
    """Return what a run on some clusters found."""
    return {
        "partitions": session.createDataFrame([(name, "g", lag) for name in clusters], LAG),
        "problems": session.createDataFrame([(name, "none") for name in clusters[:1]], NOTES),
    }


def rows(frame: DataFrame, *names: str) -> list[tuple[Any, ...]]:
    """Return a frame's rows in a fixed order."""
    wanted = names or ("run_id", "cluster", "lag")
    return sorted(tuple(row[n] for n in wanted) for row in frame.toArrow().to_pylist())


def files_of(tmp_path: Path) -> list[Path]:
    """Return every Parquet file below a folder."""
    return sorted(tmp_path.rglob("*.parquet"))


def test_any_cluster_name_comes_back_and_can_be_asked_for(
    session: SparkSession, history: History, run: Any, tmp_path: Path
) -> None:
    """Names that a file system would take for something else stay what they are, one by one."""
    history.write("r", DAY, run(*HOSTILE))

    assert sorted((name,) for name in HOSTILE) == rows(history.read("partitions"), "cluster")
    for names in (["", "EU", "nobody"], ["../x", "ü /", "l" * 400]):
        only = rows(history.read("partitions", clusters=names), "cluster")
        assert sorted((name,) for name in names if name in HOSTILE) == only
    named = session.createDataFrame([(name,) for name in HOSTILE], "cluster string")
    folders = [row[0] for row in named.selectExpr(f"concat('cluster=', {FOLDER})").collect()]
    assert folders == [folder_of(name) for name in HOSTILE]
    assert ["history"] == [path.name for path in tmp_path.iterdir()]
    for file in files_of(tmp_path):
        table, cluster, day, _, _ = file.relative_to(tmp_path / "history").parts
        assert (table in TABLES, day) == (True, "day=2026-03-01")
        assert cluster.isascii()


def test_a_run_is_kept_once(history: History, run: Any) -> None:
    """The same run written again changes nothing; other runs stay beside it."""
    assert history.write("one", DAY, run("a", lag=1))
    assert history.write("two", DAY + HOUR, run("a", lag=2))
    assert not history.write("one", DAY + HOUR, run("a", "b", lag=3))

    assert [("one", "a", 1), ("two", "a", 2)] == rows(history.read("partitions"))
    assert [HistoryRun("one", DAY), HistoryRun("two", DAY + HOUR)] == history.runs()


STEPS = ("move", "remove", "write_once")


class Died(BaseException):
    """The process is gone."""


def dying_at(monkeypatch: pytest.MonkeyPatch, step: int, *, after: bool) -> Callable[[], int]:
    """Let the process die before or after a step that changes files; return how many were made."""
    made = 0

    def dies(original: Callable[..., Any]) -> Callable[..., Any]:
        def change(*arguments: Any) -> Any:
            nonlocal made
            made += 1
            if made == step and not after:
                raise Died
            result = original(*arguments)
            if made == step:
                raise Died
            return result

        return change

    for name in STEPS:
        monkeypatch.setattr(HistoryFiles, name, dies(getattr(HistoryFiles, name)))
    return lambda: made


def every_step(
    monkeypatch: pytest.MonkeyPatch, act: Callable[[int], Any], check: Callable[[int, bool], None]
) -> int:
    """Do something that dies at its first step, its second and so on; check what is left then."""
    for step in range(1, 100):
        with monkeypatch.context() as dying:
            made = dying_at(dying, step, after=step % 2 == 0)
            try:
                act(step)
                died = False
            except Died:
                died = True
        check(step, died)
        if not died:
            return made()
    raise AssertionError("it never came to its end")


def test_a_run_that_dies_anywhere_is_there_as_a_whole_or_not_at_all(
    history: History, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each step at which it can die nobody sees half of it, and writing it again helps."""
    history.write("other", DAY, run("a", lag=0))

    def write(step: int) -> None:
        history.write(f"r{step}", DAY, run("a", "b", lag=step))

    def whole(step: int) -> list[tuple[Any, ...]]:
        return [(f"r{step}", "a", step), (f"r{step}", "b", step), (f"r{step}", "problem", 0)]

    def seen() -> list[tuple[Any, ...]]:
        """Read both tables at once: each reading costs."""
        notes = history.read("problems").selectExpr("run_id", "'problem' cluster", "0L lag")
        names = ("run_id", "cluster", "lag")
        return rows(history.read("partitions").select(*names).union(notes), *names)

    dead: list[int] = []

    def check(step: int, died: bool) -> None:  # noqa: FBT001 - as told
        found = seen()
        assert [row for row in found if row[0] == f"r{step}"] in [whole(step), []]
        assert ("other", "a", 0) in found
        dead.extend([step] if died else [])

    assert every_step(monkeypatch, write, check) >= 5
    for step in dead:
        write(step)
    found = seen()
    assert all(whole(step) == [row for row in found if row[0] == f"r{step}"] for step in dead)


CHILD = """
import sys, time
from datetime import UTC, datetime
from pathlib import Path
from toolkit.spark.history.store import History
from toolkit.spark.spark_session import start_session
from pyspark.sql.types import LongType, StringType, StructField, StructType

root, sign = sys.argv[1:]

def slowly(batches):
    for batch in batches:
        yield batch
        Path(sign).touch()
        time.sleep(600)

session = start_session()
session.conf.set("spark.sql.shuffle.partitions", "1")
schema = StructType.fromDDL("cluster string, group string, lag bigint")
rows = [(f"c{n}", "g", n) for n in range(100)]
frame = session.createDataFrame(rows, schema).repartition(1).mapInArrow(slowly, schema)
first = session.createDataFrame([("a", "g", 1)], schema)
history = History(session, root, {"partitions": schema, "groups": schema})
history.write("killed", datetime(2026, 3, 1, tzinfo=UTC), {"partitions": first, "groups": frame})
"""


def test_a_run_that_is_killed_leaves_nothing_to_see(
    session: SparkSession, tmp_path: Path, run: Any
) -> None:
    """A process killed while Spark writes its second table has not written its first either."""
    root, sign = tmp_path / "history", tmp_path / "writing"
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(root), str(sign)],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while child.poll() is None and not sign.exists():  # starting Spark takes what it takes
            time.sleep(0.1)
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    history = History(session, str(root), TABLES)

    assert sign.exists()
    assert files_of(root / "partitions")  # it had come that far
    assert ([], []) == (history.runs(), rows(history.read("partitions")))
    assert history.write("killed", DAY, run("a", lag=7))
    assert [("killed", "a", 7)] == rows(history.read("partitions"))


def test_runs_side_by_side_do_not_disturb_each_other(
    session: SparkSession, tmp_path: Path, run: Any
) -> None:
    """Several jobs that write at the same time all find their rows there, and no others."""
    root = str(tmp_path)
    names = [f"r{n}" for n in range(6)]

    def write(name: str) -> bool:
        return History(session, root, TABLES).write(name, DAY, run(name, "both"))

    with ThreadPoolExecutor(3) as pool:
        assert [True] * 6 == list(pool.map(write, names))
    expected = [(name, cluster, 1) for name in names for cluster in (name, "both")]
    assert sorted(expected) == rows(History(session, root, TABLES).read("partitions"))


def test_rows_of_older_schemas_are_read_in_todays_form(
    session: SparkSession, tmp_path: Path
) -> None:
    """New columns are null, dropped ones stay, types widen, also inside structs; rows survive."""
    versions = [
        ("cluster string, lag int, dropped string, points array<struct<at:int>>", "a"),
        ("cluster string, lag bigint, rate float, points array<struct<at:bigint,n:int>>", "b"),
        ("rate double, cluster string, lag bigint, points array<struct<n:int,at:bigint>>", "c"),
    ]
    for number, (ddl, cluster) in enumerate(versions):
        schema = StructType.fromDDL(ddl)
        history = History(session, str(tmp_path), {"lags": schema})
        row = {"cluster": cluster, "lag": number, "dropped": "old", "rate": 0.5}
        row["points"] = [{"at": number, "n": 3}]
        frame = session.createDataFrame([{n: row[n] for n in schema.names}], schema)
        history.write(cluster, DAY + number * HOUR, {"lags": frame})

    def check() -> None:
        frame = history.read("lags")
        types = {field.name: field.dataType.simpleString() for field in frame.schema}
        assert types["lag"] == "bigint"
        assert types["rate"] == "double"
        assert rows(frame, "cluster", "lag", "rate", "dropped") == [
            ("a", 0, None, "old"),
            ("b", 1, 0.5, None),
            ("c", 2, 0.5, None),
        ]
        points = sorted(str(row["points"][0].asDict()) for row in frame.collect())
        assert points == ["{'n': 3, 'at': 1}", "{'n': 3, 'at': 2}", "{'n': None, 'at': 0}"]

    check()
    history.compact(before=date(2027, 1, 1))
    check()
    # A program that knows only the older, narrower column reads the wider one.
    older = History(session, str(tmp_path), {"lags": StructType.fromDDL(versions[0][0])})
    assert "bigint" == older.read("lags").schema["lag"].dataType.simpleString()
    assert 3 == older.read("lags").count()


def test_a_column_that_became_something_else_is_an_error_that_names_it(
    session: SparkSession, tmp_path: Path
) -> None:
    """Where no type holds both, nothing is guessed."""
    for ddl in ("cluster string, lag string", "cluster string, lag bigint"):
        history = History(session, str(tmp_path), {"lags": StructType.fromDDL(ddl)})
        history.write(ddl, DAY, {"lags": session.createDataFrame([], history._tables["lags"])})

    with pytest.raises(StateFileError, match=r"lags\.lag .* as bigint and as string"):
        history.read("lags")


@pytest.fixture(scope="module")
def template(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a history of five runs: two on the first day, three on the second."""
    root = tmp_path_factory.mktemp("template")
    history = History(session, str(root), TABLES)
    for number in range(5):
        history.write(f"r{number}", DAY + number * 8 * HOUR, found(session, "a", "b", lag=number))
    return root


@pytest.fixture
def five_runs(template: Path, tmp_path: Path) -> list[tuple[str, str, int]]:
    """Make the history one of five runs, and return its rows."""
    shutil.copytree(template, tmp_path / "history")
    return [(f"r{number}", cluster, number) for number in range(5) for cluster in ("a", "b")]


def test_many_files_of_a_day_become_few(
    history: History, five_runs: Sequence[Any], run: Any, tmp_path: Path
) -> None:
    """Finished days are put together; what was opened before is still there; late runs join in."""
    opened, many = history.read("partitions"), len(files_of(tmp_path))
    assert [date(2026, 3, 1), date(2026, 3, 2)] == history.compact(before=date(2026, 3, 3))
    assert [] == history.compact(before=date(2026, 3, 3))
    assert list(five_runs) == rows(opened) == rows(history.read("partitions"))
    assert ["r0", "r1", "r2", "r3", "r4"] == [one.run_id for one in history.runs()]
    assert not history.write("r1", DAY, run("a"))

    assert history.write("late", DAY, run("a"))
    assert [date(2026, 3, 1)] == history.compact(before=date(2026, 3, 3))
    assert sorted([*five_runs, ("late", "a", 1)]) == rows(history.read("partitions"))
    history.expire(keep_days=30_000, now=datetime.now(UTC))
    assert len(files_of(tmp_path)) > many  # somebody may still be reading them
    history.expire(keep_days=30_000, now=datetime.now(UTC) + timedelta(days=2))
    assert 2 * 2 + 2 == len(files_of(tmp_path))
    assert not history.write("r1", DAY, run("a"))
    assert sorted([*five_runs, ("late", "a", 1)]) == rows(history.read("partitions"))


def test_putting_together_may_die_anywhere(
    history: History, five_runs: Sequence[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every step readers see each row once, and the next call does what is left."""

    def check(_step: int, _died: bool) -> None:  # noqa: FBT001 - as told
        assert list(five_runs) == rows(history.read("partitions"))

    every_step(monkeypatch, lambda _: history.compact(before=date(2026, 3, 2)), check)
    assert [date(2026, 3, 2)] == history.compact(before=date(2026, 3, 9))
    check(0, False)


def test_two_that_put_a_day_together_at_once_do_it_once(
    history: History, five_runs: Sequence[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two that began with the same parts one comes to count."""
    original = History._put

    def meanwhile(self: History, *arguments: Any) -> Any:
        monkeypatch.setattr(History, "_put", original)
        assert history.compact(before=date(2026, 3, 2))  # another one is quicker
        return original(self, *arguments)

    monkeypatch.setattr(History, "_put", meanwhile)
    assert [] == history.compact(before=date(2026, 3, 2))
    assert list(five_runs) == rows(history.read("partitions"))


def test_old_days_go_as_a_whole(history: History, five_runs: Sequence[Any], tmp_path: Path) -> None:
    """Days that are too old are removed with their folders, and the others are left."""
    now = datetime(2026, 4, 1, 12, tzinfo=UTC)
    assert [] == history.expire(keep_days=31, now=now)
    assert [date(2026, 3, 1)] == history.expire(keep_days=30, now=now)

    assert list(five_runs[4:]) == rows(history.read("partitions"))
    assert ["r2", "r3", "r4"] == [one.run_id for one in history.runs()]
    assert [] == list(tmp_path.rglob("day=2026-03-01"))
    with pytest.raises(UsageError, match="at least one day"):
        history.expire(keep_days=0, now=now)


def test_removing_may_die_anywhere(
    history: History, five_runs: list[Any], run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was put together does not come back when its day is removed and that dies half-way."""
    now = datetime.now(UTC) + timedelta(days=2)
    history.compact(before=date(2026, 3, 3))
    history.write("r1+", DAY, run("a"))
    history.compact(before=date(2026, 3, 3))
    five_runs.insert(4, ("r1+", "a", 1))
    keep_days = (now.date() - date(2026, 3, 2)).days

    def check(_step: int, _died: bool) -> None:  # noqa: FBT001 - as told
        assert rows(history.read("partitions")) in [five_runs, five_runs[5:]]

    every_step(monkeypatch, lambda _: history.expire(keep_days=keep_days, now=now), check)
    assert five_runs[5:] == rows(history.read("partitions"))
    assert 2 + 1 == len(files_of(Path(history._files.root.removeprefix("file:"))))


def test_what_died_is_removed_a_day_later(
    history: History, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders that were never published go once no run can be at work on them any more."""
    with monkeypatch.context() as dying:
        dying_at(dying, 3, after=False)
        with pytest.raises(Died):
            history.write("r", DAY, run("a", "b"))
    assert files_of(tmp_path)
    history.expire(keep_days=30_000, now=datetime.now(UTC) + timedelta(hours=23))
    assert files_of(tmp_path)
    history.expire(keep_days=30_000, now=datetime.now(UTC) + timedelta(hours=25))
    assert [] == files_of(tmp_path)


def test_reading_from_a_time_on(history: History, five_runs: Sequence[Any]) -> None:
    """Times are exact, also in a day that was put together; one that has not ended is not."""
    assert [date(2026, 3, 1)] == history.compact(before=date(2026, 3, 2))
    assert list(five_runs) == rows(history.read("partitions"))
    since, before = DAY + 8 * HOUR, DAY + 24 * HOUR

    assert list(five_runs[2:]) == rows(history.read("partitions", since=since))
    assert list(five_runs[2:6]) == rows(history.read("partitions", since=since, before=before))


def test_the_latest_row_before_a_run_is_found_for_each_key(
    session: SparkSession, tmp_path: Path
) -> None:
    """A key that the newest run lacks, or that had no log end there, is taken from an older one."""
    schema = StructType.fromDDL(
        "cluster string, group string, topic string, partition bigint,"
        " log_end bigint, max_committed bigint"
    )
    history = History(session, str(tmp_path), {"partitions": schema})
    ends: list[dict[str, int | None]] = [{"a": 1, "b": 1}, {"a": 2, "b": 2}, {"b": None}, {"a": 9}]
    for number, by_group in enumerate(ends):
        rows_now = [("c", g, "t", 0, end, 100 + number) for g, end in by_group.items()]
        frame = session.createDataFrame(rows_now, schema)
        history.write(f"r{number}", DAY + number * HOUR, {"partitions": frame})
    latest = history.latest("partitions", since=DAY, before=DAY + 3 * HOUR)
    names = ("group", "earlier_at", "earlier_end", "earlier_max_committed")

    assert [("a", DAY + HOUR, 2, 101), ("b", DAY + HOUR, 2, 101)] == rows(latest, *names)
    none = history.latest("partitions", since=DAY + 2 * HOUR, before=DAY + 3 * HOUR)
    assert [] == rows(none, *names)


def test_a_damaged_record_is_told_and_not_passed_over(
    history: History, five_runs: Sequence[Any], tmp_path: Path
) -> None:
    """A file that says what is there and cannot be read is an error that names it."""
    assert five_runs
    file = min((tmp_path / "history" / "published").glob("run-*.json"))
    file.with_name(f".{file.name}.crc").unlink()
    file.write_text(file.read_text()[:-5])

    with pytest.raises(StateFileError, match=f"{file.name} of the history is damaged"):
        history.read("partitions")
    file.write_text('{"format": 99}')
    with pytest.raises(StateFileError, match="has format 99"):
        history.runs()


def test_what_cannot_be_a_history_is_refused(session: SparkSession, tmp_path: Path) -> None:
    """Unknown tables and file systems, and names that would mean something else, are told."""
    history = History(session, str(tmp_path), TABLES)
    nothing = {"nothing": session.createDataFrame([], LAG)}
    for use in (lambda: history.read("nothing"), lambda: history.write("r", DAY, nothing)):
        with pytest.raises(UsageError, match="no table 'nothing'"):
            use()
    for name in ("state", "published", "../x", "A"):
        with pytest.raises(UsageError, match="invalid name"):
            History(session, str(tmp_path), {name: LAG})
    with pytest.raises(StateFileError, match="stands for many files"):
        History(session, f"{tmp_path}/*", TABLES)
    with pytest.raises(StateFileError, match='No FileSystem for scheme "nowhere"'):
        History(session, "nowhere://x/y", TABLES)
