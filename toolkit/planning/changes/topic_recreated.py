"""
Topics that were deleted and made anew: an offset of then counts other records than one of now.

The name stays, the leader epoch begins again, and the broker drops what groups had committed; only
the topic's id tells. What was saved of the earlier topic is put back only where somebody insists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from toolkit.model import Snapshot
from toolkit.plan import Finding, Severity, Step
from toolkit.planning.selection.plan_parts import Part

RULE = "topic-made-anew"
WHY = "topic was deleted and re-created: these offsets refer to records that no longer exist"


def is_another_topic(then: Mapping[str, str], now: Mapping[str, str], topic: str) -> bool:
    """Whether a topic has another id than it had; an id that is not known is taken for the same."""
    before, after = then.get(topic), now.get(topic)
    return bool(before and after and before != after)


def with_topics_made_anew(
    parts: Iterable[Part], then: Mapping[str, str], snapshot: Snapshot
) -> Iterator[Part]:
    """
    Yield parts, and a finding for each topic of which a step puts an earlier one's offsets back.

    `then` has the ids of topics when those offsets were committed. The changes stay in the plan:
    an override of `topic-made-anew` lets them through.
    """
    for part in parts:
        yield part
        if not isinstance(part, Step):
            continue
        for topic in sorted({c.partition.topic for c in part.changes if c.after}):
            if is_another_topic(then, snapshot.topic_ids, topic):
                yield Finding(RULE, Severity.BLOCK, WHY, part.group_id, topic)
