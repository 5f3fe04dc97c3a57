"""Status values of partitions and groups, and the thresholds behind them."""

from __future__ import annotations

from dataclasses import dataclass

OK, WARN, ERR = "OK", "WARN", "ERR"
STOP, STALL, REWIND = "STOP", "STALL", "REWIND"
UNSUBSCRIBED, HELD = "UNSUBSCRIBED", "HELD"

# From best to worst. An unsubscribed offset and a paused partition are no alerts; REWIND is the
# worst in Burrow, where it comes before STOP and STALL, and here only of a partition that is read.
WORDS = (OK, UNSUBSCRIBED, HELD, WARN, REWIND, ERR, STOP, STALL)

# Activity of members on a partition; null if unknown, and for commits without members.
COMMITTING, SILENT = "alive and committing", "alive and silent"
IDLE, GONE = "alive and idle", "gone"

CATCHING_UP, FALLING_BEHIND, STEADY = "catching up", "falling behind", "steady"


@dataclass(frozen=True, slots=True)
class StatusRules:
    """
    Thresholds of the status rules: window, patience and tolerance.

    The defaults suit groups that should be less than a minute behind. Durations are extended for
    groups that commit rarely: a member is not silent before its next commit is due.
    """

    window_s: float = 600.0  # older commits do not count towards a rate
    patience_s: float = 60.0  # no STOP, STALL or WARN before a record is older
    patience_intervals: float = 3.0  # and not before this many commit intervals of the group
    min_commits: int = 3  # fewer do not give a rate
    tolerance: float = 0.1  # rates that differ by less than this share are equal
