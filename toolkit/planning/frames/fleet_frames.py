"""What one reading of a fleet found, as frames: from Spark to the pages that show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pandas as pd


class FleetFrames(NamedTuple):
    """
    The results of one reading.

    Their columns are `PARTITIONS`, `GROUP_SUMMARY`, `GROUP_ACTIVITY`, `LEFTOVERS` and `PROBLEMS` of
    `spark.schemas`.
    """

    partitions: pd.DataFrame
    groups: pd.DataFrame
    activity: pd.DataFrame
    leftovers: pd.DataFrame
    problems: pd.DataFrame
