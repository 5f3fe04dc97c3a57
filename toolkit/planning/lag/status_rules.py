"""The words that say how a group does on a partition, and what is meant by them."""

from __future__ import annotations

from dataclasses import dataclass

OK, WARN, ERR = "OK", "WARN", "ERR"
STOP, STALL, REWIND, UNSUBSCRIBED = "STOP", "STALL", "REWIND", "UNSUBSCRIBED"

# From the least to the worst, as in Burrow; a leftover is no alarm.
WORDS = (OK, UNSUBSCRIBED, WARN, ERR, STOP, STALL, REWIND)

# What members do on a partition; null where that is unknown, and for commits without members.
COMMITTING, SILENT = "alive and committing", "alive and silent"
IDLE, GONE = "alive and idle", "gone"

CATCHING_UP, FALLING_BEHIND, STEADY = "catching up", "falling behind", "steady"


@dataclass(frozen=True, slots=True)
class StatusRules:
    """
    How long to look back, how long to wait, and how much is meant by "more".

    The defaults suit groups that should be less than a minute behind. Durations are stretched for
    groups that commit seldom: nobody is silent who is not yet due.
    """

    window_s: float = 600.0  # commits older than this do not count towards a pace
    patience_s: float = 60.0  # no STOP, STALL or WARN before a record has waited for longer
    patience_intervals: float = 3.0  # and never before so many of the group's own commit intervals
    min_commits: int = 3  # fewer do not make a pace
    tolerance: float = 0.1  # paces that differ by less than this share are the same
