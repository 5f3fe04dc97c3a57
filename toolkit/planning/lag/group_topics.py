"""What each group has committed or owns of each topic, without an object for each partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from toolkit.model import GroupType, LogOffsets, Snapshot, TopicPartition
from toolkit.model.commit_columns import CommitColumns, columns_of
from toolkit.model.offsets import NO_LOG
from toolkit.planning.lag.lag import lag_of
from toolkit.planning.selection.member_names import owner_names

UNKNOWN = -1  # in an array, where an offset or a lag cannot be None


@dataclass(frozen=True, slots=True)
class GroupTopic:
    """What a group has committed or owns of one topic, by partition."""

    group_id: str
    topic: str
    partitions: Sequence[int]
    offsets: Sequence[int]  # UNKNOWN: no commit
    places: Sequence[int]  # in the columns of commits; UNKNOWN: no commit
    owners: Mapping[TopicPartition, str]  # of the group
    logs: Mapping[int, LogOffsets]  # of the topic

    @property
    def lags(self) -> Iterator[tuple[int | None, int | None, int | None, str]]:
        """What `lag_of` says of each partition."""
        log = self.logs.get
        return (
            lag_of(None if offset == UNKNOWN else offset, log(number, NO_LOG))
            for number, offset in zip(self.partitions, self.offsets, strict=True)
        )


def by_group_and_topic(
    snapshot: Snapshot, *, only: Container[str] | None = None
) -> list[GroupTopic]:
    """
    Return what each group has committed or owns, by group and topic; of some groups or of all.

    Without share groups: they have no committed offsets (KIP-932), so they have no lag.
    """
    commits = columns_of(snapshot.commits)
    places: dict[tuple[str, str], list[range]] = defaultdict(list)
    for group_id, topic, here in commits.blocks:
        if only is None or group_id in only:
            places[group_id, topic].append(here)
    owned: dict[tuple[str, str], set[int]] = defaultdict(set)
    owners: dict[str, dict[TopicPartition, str]] = {}
    chosen = (one for one in snapshot.groups if only is None or one.group_id in only)
    for group in chosen:
        if group.type is not GroupType.SHARE:
            owners[group.group_id] = owner_names(group)
            for topic, number in owners[group.group_id]:
                owned[group.group_id, topic].add(number)
    logs: dict[str, dict[int, LogOffsets]] = defaultdict(dict)
    for (topic, number), log in snapshot.logs.items():
        logs[topic][number] = log
    return [
        GroupTopic(
            *key,
            *_partitions(commits, places.get(key, ()), owned.get(key, ())),
            owners.get(key[0], {}),
            logs.get(key[1], {}),
        )
        for key in sorted(places.keys() | owned.keys())
    ]


def _partitions(
    commits: CommitColumns, blocks: Sequence[range], owned: Collection[int]
) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """Return partitions in order, and the committed offset and the place of each."""
    if len(blocks) == 1:
        here = blocks[0]
        numbers = commits.partitions[here.start : here.stop]
        is_ordered = numbers.tolist() == sorted(numbers)
        if is_ordered and (not owned or set(owned) <= set(numbers)):
            return numbers, commits.offsets[here.start : here.stop], here
    place_of = dict.fromkeys(owned, UNKNOWN)
    place_of.update((commits.partitions[place], place) for here in blocks for place in here)
    ordered = sorted(place_of)
    found = [place_of[number] for number in ordered]
    return ordered, [UNKNOWN if p == UNKNOWN else commits.offsets[p] for p in found], found
