"""The options of the fleet job, checked before Spark is started for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from toolkit.errors import UsageError
from toolkit.model.times import parse_duration
from toolkit.planning.lag.status_rules import StatusRules
from toolkit.spark.history import check_root


@dataclass(frozen=True)
class FleetOptions:
    """
    The options of the fleet job.

    `rules` define the status words and the period for trends (`window_s`). Groups that are empty
    for longer than `unused_group_days` are unused. Commit activity is counted over `activity_s`.
    `history` is a folder or URL for results, from which the next run continues; a run of the same
    `run_id` is stored once. `full` reads everything, even if the history allows less.
    """

    rules: StatusRules = field(default_factory=StatusRules)
    unused_group_days: float = 30
    activity_s: float = 3600
    history: str | None = None
    run_id: str = ""
    full: bool = False

    @classmethod
    def parse(cls, *, window: str = "10m", history: str = "", **options: Any) -> Self:
        """
        Return options as people write them; `window` is how far back trends look, as "10m".

        Raises UsageError for what cannot be, before anything is started or read.
        """
        rules = StatusRules(window_s=parse_duration(window).total_seconds())
        if history:
            check_root(history)
        made = cls(rules, history=history or None, **options)
        if not made.unused_group_days >= 0:  # NaN neither
            raise UsageError(
                f"unused_group_days is {made.unused_group_days}", hint="use 0 or more days"
            )
        return made
