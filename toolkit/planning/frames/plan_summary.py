"""A plan in one sentence, for which no frame is loaded."""

from __future__ import annotations

from toolkit.model.plurals import counted
from toolkit.plan import Plan


def summary(plan: Plan) -> str:
    """Return a plan summary: how many partitions of how many groups move which way."""
    forward = back = still = first = removed = offsets_forward = offsets_back = 0
    for step in plan.steps:
        for _, before, after, _ in step.changes:
            if before is None or after is None:
                first += after is not None
                removed += before is not None
            elif (move := after.offset - before.offset) > 0:
                forward, offsets_forward = forward + 1, offsets_forward + move
            elif move < 0:
                back, offsets_back = back + 1, offsets_back - move
            else:
                still += 1
    parts = [
        (forward, f"forward by {counted(offsets_forward, 'offset')}"),
        (back, f"back by {counted(offsets_back, 'offset')}"),
        (still, "at the same offset"),
        (first, "newly committed"),
        (removed, "removed"),
    ]
    text = ", ".join(f"{number:,} {words}" for number, words in parts if number)
    if not plan.steps:
        return "no changes"
    partitions, groups = (
        counted(sum(len(step.changes) for step in plan.steps), "partition"),
        counted(len(plan.group_ids), "group"),
    )
    return f"{partitions} of {groups}" + (f": {text}" if text else "")
