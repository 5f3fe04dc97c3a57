"""Make findings about a group, or one of its partitions."""

from __future__ import annotations

from toolkit.model import Problem, TopicPartition
from toolkit.plan import Finding, Severity


def block(rule: str, why: str, group_id: str, at: TopicPartition | None = None) -> Finding:
    return Finding(rule, Severity.BLOCK, why, group_id, *(at or ()))


def note(rule: str, why: str, group_id: str, at: TopicPartition | None = None) -> Finding:
    return Finding(rule, Severity.NOTE, why, group_id, *(at or ()))


def unread(problem: Problem) -> Finding:
    """Return what blocks where something could not be read: there may be any."""
    why = f"{problem.what} could not be read: {problem.why}"
    about = problem.group_id, problem.topic, problem.partition
    return Finding("unreadable", Severity.BLOCK, why, *about)
