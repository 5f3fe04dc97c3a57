from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from toolkit.errors import StateFileError
from toolkit.model import Commit, Group, GroupState, GroupType, Problem, Snapshot
from toolkit.model.sightings import Sighting
from toolkit.storage.sightings.empty_groups import empty_since, record

DAY = timedelta(days=1)
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
EMPTY = Group("a/../b", GroupType.CLASSIC, GroupState.EMPTY, "consumer")
COMMIT = Commit("a/../b", "orders", 0, 50)


def reading(day: int, *commits: Commit, group: Group | None = EMPTY) -> Snapshot:
    """Return what was seen of a cluster on a day."""
    groups = (group,) if group else ()
    return Snapshot("eu", "../id", START + day * DAY, groups, commits or (COMMIT,), {})


def seen(state: Path, *snapshots: Snapshot) -> dict[str, Sighting]:
    """Record readings and return what is then known."""
    for snapshot in snapshots:
        record(state, snapshot)
    return empty_since(state, "../id")


def series(first: int, last: int, times: int) -> dict[str, Sighting]:
    """Return a series of the group from one day to another."""
    return {"a/../b": Sighting(START + first * DAY, times, START + last * DAY)}


def test_a_series_grows_with_each_reading(tmp_path: Path) -> None:
    """The first time stays; the number of readings and the last time tell how dense it is."""
    assert {} == seen(tmp_path)
    assert series(0, 0, 1) == seen(tmp_path, reading(0))
    assert series(0, 30, 3) == seen(tmp_path, reading(1), reading(30))
    assert {} == empty_since(tmp_path, "another")


STIRRED = {
    "moved": reading(2, replace(COMMIT, offset=51)),
    "another epoch": reading(2, replace(COMMIT, leader_epoch=0)),
    "other metadata": reading(2, replace(COMMIT, metadata="m")),
    "one commit more": reading(2, COMMIT, replace(COMMIT, partition=1)),
    "committed the same again": reading(2, replace(COMMIT, committed_at=START + DAY)),
    "was live in between": reading(2, group=replace(EMPTY, empty_since=START + DAY)),
}


@pytest.mark.parametrize("how", STIRRED)
def test_a_group_that_stirred_begins_anew(tmp_path: Path, how: str) -> None:
    """Whatever shows that the group did something since then, its series starts again."""
    assert series(2, 2, 1) == seen(tmp_path, reading(0), reading(1), STIRRED[how])


def test_old_times_do_not_stir(tmp_path: Path) -> None:
    """Commit times before the series are no sign of life."""
    old = reading(2, replace(COMMIT, committed_at=START - DAY))

    assert series(0, 2, 3) == seen(tmp_path, reading(0), reading(1), old)


@pytest.mark.parametrize("group", [None, replace(EMPTY, state=GroupState.STABLE)])
def test_a_group_that_is_live_or_gone_has_no_series(tmp_path: Path, group: Group | None) -> None:
    """It begins anew when the group is Empty again."""
    assert {} == seen(tmp_path, reading(0), reading(1, group=group))
    assert series(2, 2, 1) == seen(tmp_path, reading(2))


UNREAD = {
    "its commits": replace(reading(1), problems=(Problem("offsets", "denied", "a/../b"),)),
    "its state": reading(1, group=replace(EMPTY, state=GroupState.UNKNOWN)),
    "the listing": replace(
        reading(1, group=None), problems=(Problem("groups coordinated by broker 1", "timed out"),)
    ),
}


@pytest.mark.parametrize("what", UNREAD)
def test_what_could_not_be_read_is_no_evidence(tmp_path: Path, what: str) -> None:
    """The series neither grows nor ends."""
    assert series(0, 0, 1) == seen(tmp_path, reading(0), UNREAD[what])
    assert series(0, 2, 2) == seen(tmp_path, reading(2))


def test_an_unread_group_gets_no_series(tmp_path: Path) -> None:
    """A group whose commits could not be read was not seen unmoved."""
    assert {} == seen(tmp_path, UNREAD["its commits"])


def test_an_older_reading_changes_nothing(tmp_path: Path) -> None:
    """Nor does the same reading count twice."""
    late = reading(5)

    assert series(0, 5, 2) == seen(tmp_path, reading(0), late, reading(3), late)


@pytest.mark.parametrize("content", ["", "{}", '{"format": "x"}'])
def test_a_damaged_file_is_told(tmp_path: Path, content: str) -> None:
    """Sightings are not begun anew by themselves: somebody may rely on them."""
    seen(tmp_path, reading(0))
    (path,) = (tmp_path / "sightings").glob("*.json")
    path.write_text(content)

    with pytest.raises(StateFileError, match=r"sightings .*json") as caught:
        empty_since(tmp_path, "../id")
    with pytest.raises(StateFileError):
        record(tmp_path, reading(1))

    assert "delete that file" in caught.value.hint


def test_a_file_of_another_cluster_is_told(tmp_path: Path) -> None:
    """A file that was copied from another cluster is not taken for this one's."""
    seen(tmp_path, reading(0))
    (path,) = (tmp_path / "sightings").glob("*.json")
    path.write_text(path.read_text().replace('"../id"', '"other"'))

    with pytest.raises(StateFileError, match=r"are not of cluster \.\./id"):
        empty_since(tmp_path, "../id")
