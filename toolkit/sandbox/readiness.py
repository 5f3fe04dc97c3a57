"""
Check over the Kafka protocol whether every seeded problem is visible.

It uses raw messages on purpose: the toolkit's own reads are tested on the sandbox.
Shares the declared exception of `applications`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kafka.protocol.admin.groups import ListGroupsRequest, ListGroupsResponse
from kafka.protocol.consumer.group import OffsetFetchRequest, OffsetFetchResponse

from toolkit.model import GroupState, TopicPartition
from toolkit.sandbox.raw_members import (
    EARLIEST,
    NOT_COORDINATOR,
    Brokers,
    RawCluster,
    RawRequestRefused,
    checked,
    log_offsets,
)
from toolkit.sandbox.seed import (
    OPEN_TRANSACTION,
    POISON,
    POISON_OFFSET,
    TOPICS,
    SeededGroup,
    seeded_groups,
)


@dataclass(frozen=True, slots=True)
class SeedState:
    """What a broker shows of the seeded groups at one moment."""

    states: Mapping[str, str]  # by group
    commits: Mapping[str, Mapping[TopicPartition, int]]  # by group
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    stable: Mapping[TopicPartition, int]  # last stable offsets

    def lag(self, group: SeededGroup, topic: str) -> int:
        """How far the group is behind in `topic`, over the partitions that it has committed."""
        commits = self.commits.get(group.group_id, {})
        return sum(self.ends[p] - offset for p, offset in commits.items() if p.topic == topic)


def missing_signs(address: str, version: str) -> dict[str, str]:
    """Return the groups whose problem cannot be seen yet, and what is missing."""
    return _missing_of(address, seeded_groups(version), _missing)


def missing_members(address: str, version: str) -> dict[str, str]:
    """Return the groups whose applications are not members yet; problems may have been solved."""
    live = tuple(group for group in seeded_groups(version) if group.state is GroupState.STABLE)
    return _missing_of(address, live, _wrong_state)


def _missing_of(
    address: str, groups: tuple[SeededGroup, ...], judge: Callable[[SeededGroup, SeedState], str]
) -> dict[str, str]:
    try:
        seed_state = _read_seed_state(address, groups)
    except (OSError, RawRequestRefused) as exc:
        return {group.group_id: str(exc) for group in groups}
    missing = {group.group_id: judge(group, seed_state) for group in groups}
    return {group_id: what for group_id, what in missing.items() if what}


def _wrong_state(group: SeededGroup, seed_state: SeedState) -> str:
    state = seed_state.states.get(group.group_id, "missing")
    return "" if state == group.state else f"state is {state}, not yet {group.state}"


def _missing(group: SeededGroup, seed_state: SeedState) -> str:
    if wrong := _wrong_state(group, seed_state):
        return wrong
    committed = {partition.topic for partition in seed_state.commits.get(group.group_id, {})}
    if without := set(group.committed_topics) - committed:
        return f"no committed offset for {', '.join(sorted(without))}"
    shows = SIGNS.get(group.group_id)
    return "" if shows is None or shows(group, seed_state) else f"{group.problem}: not yet visible"


def _lags(group: SeededGroup, seed_state: SeedState) -> bool:
    """Whether it lags in the topics that it has left, or, if there are none, in all it reads."""
    return all(seed_state.lag(group, topic) > 0 for topic in group.left or group.reads)


def _is_stuck(group: SeededGroup, seed_state: SeedState) -> bool:
    commits = dict(seed_state.commits[group.group_id])
    return commits.pop(POISON, None) == POISON_OFFSET and min(commits.values()) > POISON_OFFSET


def _lost_records(group: SeededGroup, seed_state: SeedState) -> bool:
    commits = seed_state.commits[group.group_id]
    return all(offset < seed_state.starts[partition] for partition, offset in commits.items())


def _is_held_up(group: SeededGroup, seed_state: SeedState) -> bool:
    stable_end = seed_state.stable[OPEN_TRANSACTION]
    return (
        seed_state.commits[group.group_id].get(OPEN_TRANSACTION)
        == stable_end
        < seed_state.ends[OPEN_TRANSACTION]
    )


# Groups that are not named here are recognised by their state and their commits alone.
SIGNS: dict[str, Callable[[SeededGroup, SeedState], bool]] = {
    "billing": _lags,
    "billing-v2": _lags,
    "nightly-export": _lags,
    "fraud-check": _is_stuck,
    "reports": _lags,
    "archiver": _lost_records,
    "settlement": _is_held_up,
}


def _read_seed_state(address: str, groups: tuple[SeededGroup, ...]) -> SeedState:
    with RawCluster(address, client_id="sandbox") as brokers:
        return SeedState(
            states=_states(brokers),
            commits=_commits(brokers, groups),
            starts=log_offsets(brokers, TOPICS, timestamp=EARLIEST),
            ends=log_offsets(brokers, TOPICS),
            stable=log_offsets(brokers, TOPICS, stable=True),
        )


def _states(brokers: Brokers) -> dict[str, str]:
    request = ListGroupsRequest(states_filter=[], types_filter=[])
    answers = map(checked, brokers.ask_all(request, ListGroupsResponse, version=5))
    return {group.group_id: group.group_state for answer in answers for group in answer.groups}


def _commits(
    brokers: Brokers, groups: tuple[SeededGroup, ...]
) -> dict[str, dict[TopicPartition, int]]:
    requested = [
        OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group.group_id, topics=None)
        for group in groups
        if group.committed_topics
    ]
    request = OffsetFetchRequest(groups=requested, require_stable=False)
    answers = brokers.ask_all(request, OffsetFetchResponse, version=8)
    return {
        group.group_id: {
            TopicPartition(topic.name, partition.partition_index): partition.committed_offset
            for topic in group.topics
            for partition in topic.partitions
        }
        for answer in answers
        for group in answer.groups
        if group.error_code != NOT_COORDINATOR and checked(group)
    }
