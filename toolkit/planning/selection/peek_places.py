"""Around which committed offsets of a group records are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from toolkit.errors import NotFound
from toolkit.model import TopicPartition
from toolkit.planning.selection.partition_selection import parse_topics

if TYPE_CHECKING:
    import pandas as pd

MOST_PARTITIONS = 5  # that are read by default


class PeekPlace(NamedTuple):
    """A committed offset, and whether its records are read by default."""

    partition: TopicPartition
    committed: int
    by_default: bool


class PeekPlaces(NamedTuple):
    """The offsets whose records are read, and how many more would be read by default."""

    positions: dict[TopicPartition, int]
    left_out: int = 0


class PeekRequest(NamedTuple):
    """
    Which of the places of a group are read, and how many records before and from each offset on.

    `topics` are scopes (`TOPIC` or `TOPIC:0,1`); without any, the first five places by default.
    """

    places: Sequence[PeekPlace]
    topics: Sequence[str]
    before: int
    after: int

    def choose(self, group: str) -> PeekPlaces:
        """Return the places that are meant; raises NotFound for topics without one."""
        scopes, places = parse_topics(self.topics), self.places
        if not scopes:
            chosen = [(p, at) for p, at, by_default in places if by_default]
            shown = chosen[:MOST_PARTITIONS]
            return PeekPlaces(dict(shown), len(chosen) - len(shown))
        missing = [str(s) for s in scopes if not any(p in s for p, _, _ in places)]
        if missing:
            there = ", ".join(sorted({p.topic for p, _, _ in places})) or "no topic"
            raise NotFound(
                f"group {group!r} has no committed offset for {', '.join(missing)}",
                hint=f"it has committed offsets for {there}",
            )
        return PeekPlaces({p: at for p, at, _ in places if any(p in scope for scope in scopes)})


def peek_places(offsets: pd.DataFrame, by_default: pd.Series[bool]) -> list[PeekPlace]:
    """Return a place for each committed offset of a frame, in its order."""
    rows = offsets.assign(by_default=by_default).dropna(subset=["committed"])
    columns = (rows[name] for name in ("topic", "partition", "committed", "by_default"))
    return [
        PeekPlace(TopicPartition(topic, int(partition)), int(committed), bool(is_default))
        for topic, partition, committed, is_default in zip(*columns, strict=True)
    ]
