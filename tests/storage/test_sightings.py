"""What readings saw of empty groups and unsubscribed topics, as unbroken series."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from toolkit.errors import StateFileError
from toolkit.model import Commit, Group, GroupState, GroupType, Problem, Snapshot, Unread
from toolkit.model.groups import Sighting
from toolkit.storage.sightings import (
    empty_since,
    record_empty,
    record_unsubscribed,
    unsubscribed_since,
)

DAY = timedelta(days=1)
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
GROUP, CLUSTER = "a/../b", "../id"
EMPTY = Group(GROUP, GroupType.CLASSIC, GroupState.EMPTY, "consumer")
COMMIT = Commit(GROUP, "orders", 0, 50)
LEFT = {GROUP: ["orders"]}


def reading(day: int, *commits: Commit, group: Group | None = EMPTY) -> Snapshot:
    groups = (group,) if group else ()
    return Snapshot("eu", CLUSTER, START + day * DAY, groups, commits or (COMMIT,), {})


def empty(state: Path, *snapshots: Snapshot) -> dict[str, Sighting]:
    """Record readings, and return which groups are known to be empty."""
    for snapshot in snapshots:
        record_empty(state, snapshot)
    return empty_since(state, CLUSTER)


def unsubscribed(
    state: Path, *snapshots: Snapshot, left: Mapping[str, Collection[str]] = LEFT
) -> dict[tuple[str, str], Sighting]:
    """Record readings that found topics left, and return which are known to be."""
    for snapshot in snapshots:
        record_unsubscribed(state, snapshot, left)
    return unsubscribed_since(state, CLUSTER)


def series(first: int, last: int, times: int) -> list[Sighting]:
    """Return the one series, from one day to another."""
    return [Sighting(START + first * DAY, times, START + last * DAY)]


Seen = Callable[..., dict[Any, Sighting]]
both = pytest.mark.parametrize("seen", [empty, unsubscribed])


@pytest.mark.parametrize(
    ("seen", "key"), [(empty, GROUP), (unsubscribed, (GROUP, "orders"))], ids=["group", "topic"]
)
def test_a_series_grows_with_each_reading(tmp_path: Path, seen: Seen, key: object) -> None:
    """The first time stays; the number of readings and the last time tell how dense it is."""
    assert {} == seen(tmp_path)
    assert {key: series(0, 0, 1)[0]} == seen(tmp_path, reading(0))
    assert {key: series(0, 30, 3)[0]} == seen(tmp_path, reading(1), reading(30))
    assert {} == empty_since(tmp_path, "another")
    assert {} == unsubscribed_since(tmp_path, "another")


UNREAD = {
    "its commits": replace(reading(1), problems=(Problem(Unread.COMMITS, "denied", GROUP),)),
    "its state": reading(1, group=replace(EMPTY, state=GroupState.UNKNOWN)),
    "the listing": replace(
        reading(1, group=None),
        problems=(Problem(Unread.GROUPS, "those coordinated by broker 1: timed out"),),
    ),
}
TWICE = (reading(0), reading(1))
BEGINS_AGAIN, ALL_OF_IT = series(2, 2, 1), series(0, 2, 3)
# Readings, and the series that they make, of a group and of a topic.
OF_BOTH = {
    "moved": ((*TWICE, reading(2, replace(COMMIT, offset=51))), BEGINS_AGAIN),
    "another epoch": ((*TWICE, reading(2, replace(COMMIT, leader_epoch=0))), BEGINS_AGAIN),
    "other metadata": ((*TWICE, reading(2, replace(COMMIT, metadata="m"))), BEGINS_AGAIN),
    "one commit more": ((*TWICE, reading(2, COMMIT, replace(COMMIT, partition=1))), BEGINS_AGAIN),
    "committed the same again": (
        (*TWICE, reading(2, replace(COMMIT, committed_at=START + DAY))),
        BEGINS_AGAIN,
    ),
    "commit times before the series are no sign of life": (
        (*TWICE, reading(2, replace(COMMIT, committed_at=START - DAY))),
        ALL_OF_IT,
    ),
    "a reading that is not newer does not count": (
        (reading(0), reading(5), reading(3), reading(5)),
        series(0, 5, 2),
    ),
}
OF_GROUPS = {
    "a group that became Empty since was live in between": (
        (*TWICE, reading(2, group=replace(EMPTY, empty_since=START + DAY))),
        BEGINS_AGAIN,
    ),
    **{
        f"a group that is {words} has no series": ((reading(0), reading(1, group=group)), [])
        for words, group in (("live", replace(EMPTY, state=GroupState.STABLE)), ("gone", None))
    },
    "it begins again when the group is Empty again": (
        (reading(0), reading(1, group=None), reading(2)),
        BEGINS_AGAIN,
    ),
    "what could not be read was not seen unmoved": ((UNREAD["its commits"],), []),
    **{
        f"unread, {what}: neither grows": ((reading(0), unread), series(0, 0, 1))
        for what, unread in UNREAD.items()
    },
    **{
        f"unread, {what}: nor ends": ((reading(0), unread, reading(2)), series(0, 2, 2))
        for what, unread in UNREAD.items()
    },
}
OF_TOPICS = {
    "commits of other topics do not matter": (
        (reading(2), reading(3, COMMIT, Commit(GROUP, "bills", 0, 99))),
        series(2, 3, 2),
    )
}


@pytest.mark.parametrize(
    ("seen", "readings", "expected"),
    [
        pytest.param(seen, *case, id=f"{seen.__name__}: {words}")
        for seen, cases in ((empty, OF_BOTH | OF_GROUPS), (unsubscribed, OF_BOTH | OF_TOPICS))
        for words, case in cases.items()
    ],
)
def test_a_series_of_sightings(
    tmp_path: Path, seen: Seen, readings: tuple[Snapshot, ...], expected: list[Sighting]
) -> None:
    """A commit uses the topic and the group: the series starts with the next reading."""
    assert expected == [*seen(tmp_path, *readings).values()]


def test_the_end_of_a_series(tmp_path: Path) -> None:
    """A reading with a subscription; not an older reading, nor one that did not judge the group."""
    again, unjudged, older = (tmp_path / name for name in ("again", "unjudged", "older"))
    for state, day in ((again, 0), (unjudged, 0), (older, 3)):
        unsubscribed(state, reading(day))

    assert {} == unsubscribed(again, reading(1), left={GROUP: []})
    assert series(2, 2, 1) == [*unsubscribed(again, reading(2)).values()]
    assert series(0, 0, 1) == [*unsubscribed(unjudged, reading(1), left={"another": []}).values()]
    assert series(0, 2, 2) == [*unsubscribed(unjudged, reading(2)).values()]
    assert series(3, 3, 1) == [*unsubscribed(older, reading(2), left={GROUP: []}).values()]


@both
@pytest.mark.parametrize("content", ["", "{", "{}", '{"format": "x"}'])
def test_a_damaged_file_is_named(tmp_path: Path, seen: Seen, content: str) -> None:
    """A series does not restart by itself: a clean-up may rely on it."""
    seen(tmp_path, reading(0))
    (path,) = (tmp_path / "sightings").glob("*.json")
    path.write_text(content)

    with pytest.raises(StateFileError, match=r"sightings .*json") as caught:
        seen(tmp_path)
    with pytest.raises(StateFileError):
        seen(tmp_path, reading(1))

    assert str(path) in caught.value.problem
    assert "delete that file" in caught.value.hint


@both
def test_a_file_of_another_cluster_is_refused(tmp_path: Path, seen: Seen) -> None:
    """A file that was copied from another cluster is not taken for this one's."""
    seen(tmp_path, reading(0))
    (path,) = (tmp_path / "sightings").glob("*.json")
    path.write_text(path.read_text().replace('"../id"', '"other"'))

    with pytest.raises(StateFileError, match=r"are not of cluster \.\./id"):
        seen(tmp_path)


@both
def test_a_reading_of_the_future_does_not_hide_those_of_today(tmp_path: Path, seen: Seen) -> None:
    """A host whose clock was ahead has written it; no reading until then would count."""
    century = 36_500
    before = seen(tmp_path, reading(century))

    with pytest.raises(StateFileError, match="by a host whose clock is ahead") as caught:
        seen(tmp_path, reading(0))

    assert "delete that file" in caught.value.hint
    assert before == seen(tmp_path)
