"""
Detect re-created topics: their earlier offsets refer to different records.

The name stays, the leader epoch starts again, and the broker deletes the committed offsets; only
the topic id differs. Offsets saved from the earlier topic are restored only with an override.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from toolkit.model import Snapshot
from toolkit.plan import Finding, Severity, Step
from toolkit.planning.selection.plan_parts import Part

RULE = "topic-recreated"
WHY = "topic was deleted and re-created: these offsets refer to records that no longer exist"


def is_another_topic(then: Mapping[str, str], now: Mapping[str, str], topic: str) -> bool:
    """Return whether a topic's id has changed; an unknown id counts as unchanged."""
    before, after = then.get(topic), now.get(topic)
    return bool(before and after and before != after)


def with_recreated_topics(
    parts: Iterable[Part], then: Mapping[str, str], snapshot: Snapshot
) -> Iterator[Part]:
    """
    Yield parts, and a finding for each re-created topic whose earlier offsets a step restores.

    `then` has the topic ids at the time those offsets were committed. The changes stay in the plan:
    an override of `topic-recreated` allows them.
    """
    for part in parts:
        yield part
        if not isinstance(part, Step):
            continue
        for topic in sorted({c.partition.topic for c in part.changes if c.after}):
            if is_another_topic(then, snapshot.topic_ids, topic):
                yield Finding(RULE, Severity.BLOCK, WHY, part.group_id, topic)
