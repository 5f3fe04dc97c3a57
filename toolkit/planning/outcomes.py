"""What became of a plan, as a frame for whoever looks at it."""

from __future__ import annotations

import pandas as pd

from toolkit.plan import Outcome, Result

OUTCOME_COLUMNS = ("group", "action", "topic", "partition", "status", "found", "why")


def outcome_frame(outcome: Outcome) -> pd.DataFrame:
    """
    One row for each change, and one for a step without changes, in the order of the plan.

    Columns: group, action, topic, partition (Int64), status ("done", "refused", "failed" or "not
    tried"), found (Int64, the offset that was read back; null where nothing is committed), why.
    """
    rows = [
        (step.group_id, str(step.action), *_cells(result))
        for step in outcome.steps
        for result in step.results
    ]
    rows += [
        (step.group_id, str(step.action), None, None, str(step.status), None, step.why)
        for step in outcome.steps
        if not step.results
    ]
    frame = pd.DataFrame(rows, columns=list(OUTCOME_COLUMNS), dtype="object")
    return frame.astype({"partition": "Int64", "found": "Int64"})


def _cells(result: Result) -> tuple[object, ...]:
    found = result.found and result.found.offset
    return (*result.partition, str(result.status), found, result.why)
