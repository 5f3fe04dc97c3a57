"""Read what members subscribe to, and what tasks of streams groups (KIP-1071) read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from toolkit.kafka_io.wire.fields import FieldReader, MalformedMessage
from toolkit.model import UNPARSED, Subscription, TopicPartition

SourceTopics = Mapping[str, tuple[str, ...]]  # by subtopology


def source_topics(topology: Any) -> SourceTopics | None:
    """Return the topics that each subtopology of a described topology reads; None: not known."""
    parts = topology.subtopologies if topology else None
    if parts is None:
        return None
    return {
        part.subtopology_id: (
            *part.source_topics,
            *(topic.name for topic in part.repartition_source_topics),
        )
        for part in parts
    }


def read_by(assignment: Any, sources: SourceTopics) -> frozenset[TopicPartition]:
    """
    Return the partitions that the active tasks of an assignment read.

    A task is a number: it reads that partition of each source topic of its subtopology. Where one
    of these topics has fewer partitions, the last ones returned here do not exist.
    """
    return frozenset(
        TopicPartition(topic, number)
        for task in assignment.active_tasks
        for topic in sources.get(task.subtopology_id, ())
        for number in task.partitions
    )


class ExistingTopics(NamedTuple):
    """The topics of a cluster: their names, and how many partitions each has."""

    names: frozenset[str] = frozenset()
    partitions: Mapping[str, int] = MappingProxyType({})


LookUpTopics = Callable[[], ExistingTopics]


def from_names(names: Iterable[str], pattern: str | None, topics: LookUpTopics) -> Subscription:
    """
    Return the subscription of a KIP-848 member: names it sent and what its pattern matches.

    The broker matches whole topic names with RE2 rules (KIP-848), and so do we. It leaves out
    topics that the member may not describe, which is unknown here: such a topic counts as
    subscribed here, which errs on the side of keeping offsets.
    """
    names = frozenset(names)
    if not pattern:
        return Subscription(topics=names)
    import re2  # noqa: PLC0415 - few groups have a pattern

    try:
        matched = _matching(pattern, topics().names)
    except re2.error as exc:
        return Subscription(
            names, pattern, unreadable=f"pattern {pattern!r} is not valid RE2: {exc}"
        )
    return Subscription(names | matched, pattern)


@lru_cache(maxsize=1024)
def _matching(pattern: str, topics: frozenset[str]) -> frozenset[str]:
    import re2  # noqa: PLC0415 - as above

    options = re2.Options()
    options.log_errors = False
    compiled = re2.compile(pattern, options)
    return frozenset(topic for topic in topics if compiled.fullmatch(topic))


def from_classic_metadata(data: bytes) -> Subscription:
    """
    Return the subscription in a classic member's join metadata; client-side patterns are resolved.

    Only the version and the topic list are read, exactly as the coordinator does it (KIP-496): what
    follows differs between clients and versions and is not needed.
    """
    reader = FieldReader(data, "subscription")
    try:
        reader.int16()
        topics = reader.list_of(reader.text)
    except MalformedMessage:
        return Subscription(unreadable=UNPARSED)
    return Subscription(topics=frozenset(topics))


def assignment_from_bytes(data: bytes) -> tuple[TopicPartition, ...]:
    """Return a classic member's assigned partitions; empty where the bytes are not of that kind."""
    reader = FieldReader(data, "assignment")
    try:
        reader.int16()
        return tuple(sorted(reader.partitions()))
    except MalformedMessage:
        return ()


def user_data_from_bytes(data: bytes) -> bytes:
    """Return what the leader of a classic group added to a member's assignment; b"" for nothing."""
    reader = FieldReader(data, "assignment")
    try:
        reader.int16()
        reader.partitions()
        return reader.nullable_blob() or b""
    except MalformedMessage:
        return b""
