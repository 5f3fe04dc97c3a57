"""Which partitions the tasks of a streams group (KIP-1071) read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolkit.model import TopicPartition

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
