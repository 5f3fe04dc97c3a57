"""Many committed offsets in columns: a fifth of the memory and time of one object for each."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple, overload

from toolkit.model.offsets import Commit

NO_EPOCH = -1


class CommitBlock(NamedTuple):
    """Commits of one group to one topic that follow one another, and their places."""

    group_id: str
    topic: str
    places: range


class CommitColumns(Sequence[Commit]):
    """
    Committed offsets: a sequence of `Commit`, each made when it is asked for.

    The columns `partitions`, `offsets` and `epochs` (-1: none) have an entry for each commit; what
    few commits have is kept by its place.
    """

    def __init__(self, commits: Iterable[Commit] = ()) -> None:
        """Take commits in their order."""
        self.blocks: list[CommitBlock] = []
        self.partitions, self.offsets, self.epochs = array("i"), array("q"), array("i")
        self.metadata: dict[int, str] = {}
        self.committed_at: dict[int, datetime] = {}
        self.topic_ids: dict[int, str] = {}
        self.pending: set[int] = set()
        for commit in commits:
            self.append(commit)

    def append(self, commit: Commit) -> None:
        """Add one commit at the end."""
        place = len(self)
        last = self.blocks[-1] if self.blocks else None
        if last and last[:2] == (commit.group_id, commit.topic):
            self.blocks[-1] = last._replace(places=range(last.places.start, place + 1))
        else:
            here = range(place, place + 1)
            self.blocks.append(CommitBlock(commit.group_id, commit.topic, here))
        self.partitions.append(commit.partition)
        self.offsets.append(commit.offset)
        self.epochs.append(NO_EPOCH if commit.leader_epoch is None else commit.leader_epoch)
        if commit.metadata:
            self.metadata[place] = commit.metadata
        self.set_time(place, commit.committed_at, commit.topic_id)
        if commit.pending:
            self.pending.add(place)

    def set_time(self, place: int, committed_at: datetime | None, topic_id: str | None) -> None:
        """Set what is known of when a commit was made, and for which topic."""
        if committed_at:
            self.committed_at[place] = committed_at
        if topic_id:
            self.topic_ids[place] = topic_id

    def add_block(
        self,
        group_id: str,
        topic: str,
        *,
        partitions: Sequence[int],
        offsets: Sequence[int],
        epochs: Sequence[int],
    ) -> None:
        """Add commits of one group to one topic; an epoch is `NO_EPOCH` where none is known."""
        start = len(self)
        self.partitions.extend(partitions)
        self.offsets.extend(offsets)
        self.epochs.extend(epochs)
        self.blocks.append(CommitBlock(group_id, topic, range(start, len(self))))

    def __len__(self) -> int:
        """Return the number of commits."""
        return len(self.offsets)

    def __iter__(self) -> Iterator[Commit]:
        """Yield each commit."""
        for block in self.blocks:
            for place in block.places:
                yield self._commit(block, place)

    @overload
    def __getitem__(self, place: int) -> Commit: ...
    @overload
    def __getitem__(self, place: slice) -> list[Commit]: ...
    def __getitem__(self, place: int | slice) -> Commit | list[Commit]:
        """Return the commit at a place, or those of a slice."""
        if isinstance(place, slice):
            return list(self)[place]
        wanted = range(len(self))[place]
        return next(self._commit(b, wanted) for b in self.blocks if wanted in b.places)

    def __eq__(self, other: object) -> bool:
        """Whether another sequence has equal commits in the same order."""
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # as a list

    def _commit(self, block: CommitBlock, place: int) -> Commit:
        epoch = self.epochs[place]
        return Commit(
            block.group_id,
            block.topic,
            self.partitions[place],
            self.offsets[place],
            None if epoch == NO_EPOCH else epoch,
            self.metadata.get(place, ""),
            self.committed_at.get(place),
            place in self.pending,
            self.topic_ids.get(place, ""),
        )


def columns_of(commits: Sequence[Commit]) -> CommitColumns:
    """Return commits in columns; those that are, as they are."""
    return commits if isinstance(commits, CommitColumns) else CommitColumns(commits)
