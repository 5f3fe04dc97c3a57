"""Hold files say what is held; a lock beside them says whether anybody keeps it."""

from __future__ import annotations

import fcntl
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from applications import PATIENCE_S

from toolkit.errors import Blocked, StateFileError
from toolkit.model import CaptureMode, Cluster, GroupType, HoldNote, TopicPartition
from toolkit.storage import hold_files
from toolkit.storage.formats.file_lock import try_lock
from toolkit.storage.hold_files import (
    HoldRecord,
    HoldStatus,
    has_live_keeper,
    hold_path,
    keeper_lock,
    list_holds,
    read_hold,
    write_hold,
)

RECORD = HoldRecord(
    run_id="20261121T101500Z-1a2b",
    cluster=Cluster("eu", "kafka:9092", {"sasl.password": "${env:EU_PASSWORD}"}, timeout_s=40),
    cluster_id="abc",
    group_id="orders/../billing",
    type=GroupType.CONSUMER,
    assignor="uniform",
    wanted=(TopicPartition("orders", 1), TopicPartition("orders", 4)),
    prefer=CaptureMode.LOSSLESS,
    note=HoldNote("ana", "desk-1", datetime(2026, 11, 21, tzinfo=UTC), None, "poison", 45.0),
    status=HoldStatus.HELD,
    held=(TopicPartition("orders", 1),),
    members={"!0001": {"epoch": 7}},
)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Everything comes back, and a secret stays a reference."""
    path = hold_path(tmp_path, "abc", RECORD.group_id)
    assert read_hold(path) is None

    write_hold(path, RECORD)

    assert read_hold(path) == RECORD
    assert [path] == list_holds(tmp_path)
    assert path.parent.parent == tmp_path / "holds"


def test_one_keeper_at_a_time(tmp_path: Path) -> None:
    """While somebody keeps a hold nobody else can, and afterwards anybody can."""
    path = hold_path(tmp_path, "abc", "orders")
    assert not has_live_keeper(path)

    with keeper_lock(path):
        assert has_live_keeper(path)
        with pytest.raises(Blocked, match="another keeper owns"), keeper_lock(path):
            pass

    assert not has_live_keeper(path)


def test_who_looks_keeps_nobody_from_keeping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking whether there is a keeper delays one that starts, and does not refuse it."""
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

    monkeypatch.setattr(hold_files, "try_lock", try_once)

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


def test_a_hold_that_ended_is_told_from_one_that_goes_on(tmp_path: Path) -> None:
    """The status is kept, with words."""
    path = tmp_path / "hold.json"
    ended = replace(RECORD, status=HoldStatus.ENDED, words="resumed", held=())

    write_hold(path, ended)

    assert read_hold(path) == ended
