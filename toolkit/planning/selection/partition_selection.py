"""
Parse partition selections (`topic`, `topic:0,1,2`, `topic:0-5`) and match them with commits.

The grammar is that of KIP-1249 and `kafka-consumer-groups`, with ranges. For one group:

- no topic: every partition with a commit;
- a topic: its partitions with a commit. The others are a note, `no-commit`, because a group without
  a commit starts according to auto.offset.reset (Kafka's tool commits there too). With new topics
  allowed, all partitions of the topic;
- single partitions: these, with or without a commit.

A topic that the group has never committed is selected only with new topics allowed. A selected
partition that cannot be planned is a finding.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from toolkit.errors import UsageError
from toolkit.model import TopicPartition
from toolkit.model.names import did_you_mean
from toolkit.model.snapshot import MISSING_LOG, NO_PARTITION
from toolkit.plan import Finding, Severity
from toolkit.planning.selection.findings import block, note, unread
from toolkit.planning.selection.snapshot_index import SnapshotIndex

GRAMMAR = "write topic, topic:0,1,2 or topic:0-5"
LEGAL_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
NUMBERS = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
MOST_PARTITIONS = 100_000  # of one topic; a larger range is a typing error

NO_LEADER = "it has no leader"  # why a log could not be read


@dataclass(frozen=True, slots=True)
class TopicScope:
    """One topic, or some of its partitions, in order; `str()` returns the parsed form."""

    topic: str
    partitions: tuple[int, ...] | None = None  # None: the whole topic

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition.topic == self.topic and (
            self.partitions is None or partition.partition in self.partitions
        )

    def __str__(self) -> str:
        """Return `topic` or `topic:0-2,5`."""
        return self.topic if self.partitions is None else f"{self.topic}:{ranges(self.partitions)}"


def parse_topic(text: str) -> TopicScope:
    """Parse `topic`, `topic:0,1,2` or `topic:0-5`; duplicate partitions count once."""
    topic, colon, numbers = text.strip().partition(":")
    if not LEGAL_TOPIC.fullmatch(topic):
        hint = f"{GRAMMAR}; pass several topics separately" if "," in topic else GRAMMAR
        raise UsageError(f"{text!r} does not begin with the name of a topic", hint=hint)
    if not colon:
        return TopicScope(topic)
    found: set[int] = set()
    for part in numbers.split(","):
        found.update(_numbers(part.strip(), text))
        if len(found) > MOST_PARTITIONS:
            raise UsageError(f"{text!r} names more than {MOST_PARTITIONS:,} partitions")
    return TopicScope(topic, tuple(sorted(found)))


def _numbers(part: str, text: str) -> Iterable[int]:
    match = NUMBERS.fullmatch(part)
    if not match:
        what = f"{part!r} is not a partition number" if part else "a partition number is missing"
        raise UsageError(f"in {text!r}, {what}", hint=GRAMMAR)
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise UsageError(f"in {text!r}, the range {part} runs backwards", hint=f"{last}-{first}")
    if last - first >= MOST_PARTITIONS:
        raise UsageError(f"in {text!r}, the range {part} has more than {MOST_PARTITIONS:,} numbers")
    return range(first, last + 1)


def parse_topics(texts: Iterable[str]) -> tuple[TopicScope, ...]:
    """Parse several topics; raises UsageError at the first invalid one."""
    return tuple(parse_topic(text) for text in texts)


def scopes_of(partitions: Iterable[TopicPartition]) -> tuple[TopicScope, ...]:
    """Return scopes that name exactly these partitions, in order of topic."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return tuple(TopicScope(topic, tuple(numbers)) for topic, numbers in by_topic.items())


def ranges(numbers: Collection[int]) -> str:
    """Format partition numbers: 0-2,5."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)


class ChosenPartitions(NamedTuple):
    """The selected partitions with known logs, in order, and findings about the others."""

    partitions: tuple[TopicPartition, ...]
    findings: tuple[Finding, ...]


def choose_partitions(
    index: SnapshotIndex,
    group_id: str,
    scopes: Sequence[TopicScope] = (),
    *,
    new_topics: bool = False,
    named_by_operator: bool = True,
) -> ChosenPartitions:
    """
    Return the selected partitions of a group, by the rules at the top of this file.

    `named_by_operator`: an operator has named the scopes, so one that does not exist is a mistake;
    else they come from a saved file or another cluster.
    """
    committed = index.commits_of(group_id)
    unknown = index.unread_of(group_id)
    findings: list[Finding] = []
    meant: set[TopicPartition] = set()
    used = {partition.topic for partition in (*committed, *unknown)} if scopes else ()
    for scope in scopes:
        if new_topics or scope.topic in used:
            meant.update(_within(scope, index, (*committed, *unknown), whole=new_topics))
            if scope.partitions is None:
                findings += _uncommitted(index, group_id, scope.topic, meant)
        else:
            findings.append(_never_used(index, group_id, scope))
    if not scopes:
        meant.update(committed, unknown)
        if not meant:
            why = "no committed offsets"
            findings.append(note("no-commit", why, group_id))
    known, logs = [], index.snapshot.logs
    for partition in sorted(meant):
        if partition not in unknown and (log := logs.get(partition)) and log.is_known:
            known.append(partition)
            continue
        is_mistake = named_by_operator and partition not in committed and partition not in unknown
        findings.append(_fault(index, group_id, partition, is_mistake=is_mistake))
    return ChosenPartitions(tuple(known), tuple(findings))


def _within(
    scope: TopicScope, index: SnapshotIndex, committed: Iterable[TopicPartition], *, whole: bool
) -> Iterator[TopicPartition]:
    numbers: Iterable[int] = scope.partitions or ()
    if scope.partitions is None:
        yield from (partition for partition in committed if partition.topic == scope.topic)
        numbers = index.partitions.get(scope.topic, ()) if whole else ()
    yield from (TopicPartition(scope.topic, number) for number in numbers)


def _uncommitted(
    index: SnapshotIndex, group_id: str, topic: str, meant: Collection[TopicPartition]
) -> Iterator[Finding]:
    known = index.partitions.get(topic, frozenset())
    others = {number for number in known if TopicPartition(topic, number) not in meant}
    if others:
        only = min(others) if len(others) == 1 else None
        why = f"no committed offset for {topic}:{ranges(others)}; skipped"
        yield Finding("no-commit", Severity.NOTE, why, group_id, topic, only)
    elif not known and not any(partition.topic == topic for partition in meant):
        yield missing_topic(index, group_id, topic)


def _never_used(index: SnapshotIndex, group_id: str, scope: TopicScope) -> Finding:
    if scope.topic not in index.partitions:
        return missing_topic(index, group_id, scope.topic)
    why = "the group has never committed offsets for this topic"
    return Finding("topic-never-used", Severity.BLOCK, why, group_id, scope.topic)


def why_missing(
    index: SnapshotIndex, group_id: str, scope: TopicScope, *, committed: Collection[int]
) -> Finding | None:
    """
    Return a block if a topic, or a partition of it, does not exist; None if all do.

    `committed` partitions of a deleted topic count as existing.
    """
    known = index.partitions.get(scope.topic, frozenset()) | set(committed)
    if not known:
        return missing_topic(index, group_id, scope.topic)
    if lacking := set(scope.partitions or ()) - known:
        why = f"{NO_PARTITION}: {ranges(lacking)}"
        return Finding("no-such-partition", Severity.BLOCK, why, group_id, scope.topic)
    return None


def missing_topic(index: SnapshotIndex, group_id: str, topic: str) -> Finding:
    """Return the finding for a requested topic whose partitions are unknown."""
    problem = index.about_log.get((topic, None))
    why = problem.why if problem else "this topic was not read"
    found = _unknown_log(why, group_id, topic, is_mistake=True)
    return replace(found, why=f"{found.why}{did_you_mean(topic, frozenset(index.partitions))}")


def missing_partition(
    index: SnapshotIndex, group_id: str, partition: TopicPartition, *, is_mistake: bool = True
) -> Finding:
    """Return what blocks where a topic does not have a partition."""
    topic = partition.topic
    why = f"{NO_PARTITION}: {topic} has {ranges(index.partitions.get(topic, ()))}"
    about = (Severity.BLOCK, why, group_id, *partition)
    return Finding("no-such-partition" if is_mistake else "missing-partition", *about)


def _unknown_log(
    why: str, group_id: str, topic: str, partition: int | None = None, *, is_mistake: bool
) -> Finding:
    """Return the finding for a log that could not be read, by the text of the read error."""
    about = (Severity.BLOCK, why, group_id, topic, partition)
    if why in MISSING_LOG:
        return Finding("no-such-partition" if is_mistake else "missing-partition", *about)
    return Finding("no-leader" if why == NO_LEADER else "unreadable", *about)


def _fault(
    index: SnapshotIndex, group_id: str, partition: TopicPartition, *, is_mistake: bool
) -> Finding:
    """Return why a partition cannot be planned."""
    if problem := index.unread_of(group_id).get(partition):
        return unread(problem)
    if problem := index.log_problem(partition):
        return _unknown_log(problem.why, group_id, *partition, is_mistake=is_mistake)
    known = index.partitions.get(partition.topic, frozenset())
    if known and partition.partition not in known:
        return missing_partition(index, group_id, partition, is_mistake=is_mistake)
    why = "its log start and end offsets are unknown"
    return block("unreadable", why, group_id, partition)
