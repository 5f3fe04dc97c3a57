"""What readings saw left behind, as an unbroken series for each group and topic."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from toolkit.errors import StateFileError
from toolkit.model import Commit, Snapshot
from toolkit.model.sightings import Sighting
from toolkit.storage.sightings.unsubscribed_topics import record, since

DAY = timedelta(days=1)
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
COMMIT = Commit("g/..", "orders", 0, 50)
LEFT = {"g/..": ["orders"]}


def look(
    state: Path,
    day: int,
    left: Mapping[str, Collection[str]] | None = None,
    *,
    commits: tuple[Commit, ...] = (COMMIT,),
) -> dict[tuple[str, str], Sighting]:
    """Record the reading of a day and return what is then known."""
    snapshot = Snapshot("eu", "../id", START + day * DAY, (), commits, {})
    record(state, snapshot, LEFT if left is None else left)
    return since(state, "../id")


def series(first: int, last: int, seen: int) -> dict[tuple[str, str], Sighting]:
    """Return a series from one day to another."""
    return {("g/..", "orders"): Sighting(START + first * DAY, seen, START + last * DAY)}


def test_a_series_grows_with_each_reading(tmp_path: Path) -> None:
    """The first time stays; how often and when last it was seen tell how dense it is."""
    assert {} == since(tmp_path, "../id")
    assert series(0, 0, 1) == look(tmp_path, 0)
    assert series(0, 7, 2) == look(tmp_path, 7)
    assert {} == since(tmp_path, "another")


def test_a_reading_that_is_not_newer_changes_nothing(tmp_path: Path) -> None:
    """Two looks at once count once, and an old one does not take a series away."""
    look(tmp_path, 3)

    assert series(3, 3, 1) == look(tmp_path, 3)
    assert series(3, 3, 1) == look(tmp_path, 2, {"g/..": []})


def test_a_topic_that_was_subscribed_again_loses_its_series(tmp_path: Path) -> None:
    """Being read in between is what the series is there to exclude."""
    look(tmp_path, 0)

    assert {} == look(tmp_path, 1, {"g/..": []})
    assert series(2, 2, 1) == look(tmp_path, 2)


def test_a_group_that_was_not_judged_keeps_its_series(tmp_path: Path) -> None:
    """Not to have looked, or to have found nobody in the group, is no evidence."""
    look(tmp_path, 0)

    assert series(0, 0, 1) == look(tmp_path, 1, {"another": []})
    assert series(0, 2, 2) == look(tmp_path, 2)


@pytest.mark.parametrize(
    "stirred",
    [
        (replace(COMMIT, offset=51),),
        (COMMIT, replace(COMMIT, partition=1)),
        (replace(COMMIT, committed_at=START + DAY),),
    ],
)
def test_a_topic_that_was_committed_begins_anew(
    tmp_path: Path, stirred: tuple[Commit, ...]
) -> None:
    """Whoever commits uses the topic, whatever the group subscribes to; others do not matter."""
    look(tmp_path, 0)

    assert series(2, 2, 1) == look(tmp_path, 2, commits=stirred)
    other = replace(COMMIT, topic="bills", offset=99)
    assert series(2, 3, 2) == look(tmp_path, 3, commits=(*stirred, other))


def test_a_damaged_book_is_named(tmp_path: Path) -> None:
    """No series is made up where the file cannot be read, and the way out is told."""
    look(tmp_path, 0)
    (file,) = (tmp_path / "sightings").glob("*.json")
    file.write_text("{", "utf-8")

    with pytest.raises(StateFileError) as caught:
        since(tmp_path, "../id")

    assert str(file) in caught.value.problem
    assert "delete that file" in (caught.value.hint or "")
