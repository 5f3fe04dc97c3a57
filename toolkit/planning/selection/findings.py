"""Make findings about a group, or one of its partitions."""

from __future__ import annotations

from toolkit.model import Problem, TopicPartition
from toolkit.plan import Finding, Severity


def block(rule: str, why: str, group_id: str, at: TopicPartition | None = None) -> Finding:
    return Finding(rule, Severity.BLOCK, why, group_id, *(at or ()))


def note(rule: str, why: str, group_id: str, at: TopicPartition | None = None) -> Finding:
    return Finding(rule, Severity.NOTE, why, group_id, *(at or ()))


def unread_facts(group_id: str, problem: Problem) -> Finding:
    """Return what blocks where something of a group could not be read."""
    return block("unreadable", f"{problem.what} could not be read: {problem.why}", group_id)


def unread_offset(group_id: str, partition: TopicPartition, reason: str) -> Finding:
    """Return what blocks where a committed offset could not be read: there may be one."""
    why = f"committed offset could not be read: {reason}"
    return block("unreadable", why, group_id, partition)
