"""Result of a plan as a frame."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pandas as pd

from toolkit.model.names import shown_name
from toolkit.plan import Outcome, StepOutcome

OUTCOME_COLUMNS = ("group", "action", "topic", "partition", "status", "read_back", "why")


def outcome_frame(outcome: Outcome | None) -> pd.DataFrame:
    """
    One row for each change, and one for a step without changes, in the order of the plan.

    None, if nothing was applied, gives no rows. Columns: group, action, topic, partition (Int64),
    status (see `ChangeStatus`), read_back (Int64, the offset that was read back; null if there is
    no committed offset), why.
    """
    steps = outcome.steps if outcome else ()
    rows = [(step.group_id, step.action.shown, *cells) for step in steps for cells in _rows(step)]
    frame = pd.DataFrame(rows, columns=list(OUTCOME_COLUMNS), dtype="object")
    return frame.astype({"partition": "Int64", "read_back": "Int64"})


def outcome_reasons(outcome: Outcome) -> list[str]:
    """Return why steps were not done: one line per reason, with the group or a count."""
    told: dict[str, set[str]] = defaultdict(set)
    for step in outcome.steps:
        if step.why:
            told[f"{step.status}: {step.why}"].add(step.group_id)
    return [
        f"{shown_name(min(groups)) if len(groups) == 1 else f'{len(groups):,} groups'}: {why}"
        for why, groups in told.items()
    ]


def _rows(step: StepOutcome) -> Iterator[tuple[object, ...]]:
    for result in step.results:
        found = result.found and result.found.offset
        yield *result.partition, str(result.status), found, result.why
    if not step.results:
        yield None, None, str(step.status), None, step.why
