"""Hold files, with the lock that says whether anybody keeps one; and undo records."""

import fcntl
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from applications import PATIENCE_S
from hold_records import hold_record

from toolkit.errors import Blocked, NotFound, StateFileError
from toolkit.model import Cluster, TopicPartition
from toolkit.plan import Intent, Plan
from toolkit.storage.formats import file_lock
from toolkit.storage.formats.file_lock import try_lock
from toolkit.storage.hold_files import (
    HoldStatus,
    has_live_keeper,
    hold_path,
    keeper_lock,
    list_holds,
    read_hold,
    write_hold,
)
from toolkit.storage.undo_records import list_runs, new_run_id, read_undo_record, write_undo_record

RECORD = hold_record(
    cluster=Cluster("eu", "kafka:9092", {"sasl.password": "${env:EU_PASSWORD}"}, timeout_s=40),
    group_id="orders/../billing",
    wanted=(TopicPartition("orders", 1), TopicPartition("orders", 4)),
    status=HoldStatus.HELD,
    held=(TopicPartition("orders", 1),),
    members={"!0001": {"epoch": 7}},
    added_until={TopicPartition("orders", 1): datetime(2026, 11, 21, 10, 15, 0, 5, tzinfo=UTC)},
)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Everything is read back, a secret stays a reference."""
    path = hold_path(tmp_path, "abc", RECORD.group_id)
    assert read_hold(path) is None

    for record in (RECORD, replace(RECORD, status=HoldStatus.ENDED, words="resumed", held=())):
        write_hold(path, record)
        assert read_hold(path) == record
    before = json.loads(path.read_text("utf-8"))  # as written by an earlier version
    del before["added_until"]
    path.write_text(json.dumps(before), "utf-8")
    assert read_hold(path) == replace(record, added_until={})
    assert [path] == list_holds(tmp_path)
    assert path.parent.parent == tmp_path / "holds"


def test_one_keeper_at_a_time(tmp_path: Path) -> None:
    """While one keeps a hold no other can, and afterwards any can."""
    path = hold_path(tmp_path, "abc", "orders")
    assert not has_live_keeper(path)

    with keeper_lock(path):
        assert has_live_keeper(path)
        with pytest.raises(Blocked, match="another keeper owns"), keeper_lock(path):
            pass

    assert not has_live_keeper(path)


def test_a_check_for_a_keeper_does_not_prevent_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It delays one that starts, and does not refuse it."""
    path = hold_path(tmp_path, "abc", "orders")
    path.parent.mkdir(parents=True)
    lock = path.with_suffix(".lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_SH)  # as `has_live_keeper` has it for a moment
    assert not has_live_keeper(path)
    tries: list[bool] = []

    def try_once(descriptor: int, *, shared: bool = False) -> bool:
        tries.append(try_lock(descriptor, shared=shared))
        lock.close()  # who looked is done after the first try
        return tries[-1]

    monkeypatch.setattr(file_lock, "try_lock", try_once)

    with keeper_lock(path, within_s=PATIENCE_S):
        assert [False, True] == tries
        assert has_live_keeper(path)


@pytest.mark.parametrize("damage", ["", "[]", "{}", '{"note": null}', '"held"'])
def test_a_damaged_file_is_named(tmp_path: Path, damage: str) -> None:
    """A file that cannot be read is an error with a way out, never an empty hold."""
    path = tmp_path / "hold.json"
    path.write_text(damage)

    with pytest.raises(StateFileError, match="paused-partitions") as caught:
        read_hold(path)
    assert str(path) in str(caught.value)


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
AA11, AB22 = "20260301T120000Z-aa11", "20260301T120000Z-ab22"


def plan(request: str) -> Plan:
    """Return a plan that can be told from others."""
    return Plan(Intent.RESET, request, "eu", "id", NOON, ())


def test_run_ids_tell_the_time_and_never_repeat() -> None:
    """A run's name begins with its time in UTC; a thousand in one second are all different."""
    east = NOON.astimezone(timezone(timedelta(hours=5)))

    ids = {new_run_id(east, "5c1f0a9be2d34711") for _ in range(1000)}

    assert 1000 == len(ids)
    assert all(run_id.startswith("20260301T120000Z-5c1f") for run_id in ids)


def test_undo_records_come_back_by_the_beginning_of_their_name(tmp_path: Path) -> None:
    """A record is found by its whole name or by a beginning that says enough."""
    state = tmp_path / "not there yet"
    path = write_undo_record(state, AA11, plan("first"))
    write_undo_record(state, AB22, plan("second"))
    write_undo_record(state, f"{AB22}33", plan("third"))

    assert state / "runs/20260301T120000Z-aa11/plan.json" == path
    assert plan("first") == read_undo_record(state, "20260301T120000Z-aa")
    assert plan("second") == read_undo_record(state, AB22)
    assert [f"{AB22}33", AB22, AA11] == list_runs(state)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("20260301T120000Z-", f"matches several runs in .* one of: {AB22}, 20260301T12"),
        ("20260301T120000Z-aa12", "no undo record in .* one of: 20260301T120000Z-aa11"),
        ("", "no undo record"),
        ("../runs/20260301T120000Z-aa11", "no undo record"),
    ],
)
def test_an_unknown_run_is_answered_with_the_known_ones(
    tmp_path: Path, name: str, words: str
) -> None:
    """An unknown or ambiguous name is reported with the runs that may be meant."""
    write_undo_record(tmp_path, AA11, plan("first"))
    write_undo_record(tmp_path, AB22, plan("second"))

    with pytest.raises(NotFound, match=words):
        read_undo_record(tmp_path, name)


def test_without_any_run(tmp_path: Path) -> None:
    """Where nothing was recorded yet, the list is empty and a name leads to another folder."""
    assert [] == list_runs(tmp_path)
    with pytest.raises(NotFound, match="name another state directory"):
        read_undo_record(tmp_path, "20260301")


def test_a_record_is_written_once(tmp_path: Path) -> None:
    """The second of one run is refused, the first stays; an edited one is not undone by guess."""
    path = write_undo_record(tmp_path, "run", plan("first"))

    with pytest.raises(StateFileError, match="runs/run cannot be written: File exists"):
        write_undo_record(tmp_path, "run", plan("second"))
    assert plan("first") == read_undo_record(tmp_path, "run")

    path.write_text(path.read_text().replace('"id"', '"other"'))
    with pytest.raises(StateFileError, match=r"undo record: plan file .*plan\.json was edited"):
        read_undo_record(tmp_path, "run")
