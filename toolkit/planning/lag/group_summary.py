"""One row for each group: the status of its worst partition, and sums over all of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from toolkit.model.snapshot import NO_TOPIC
from toolkit.planning.lag.lag import lag_by_group
from toolkit.planning.lag.status_rules import (
    CATCHING_UP,
    COMMITTING,
    ERR,
    FALLING_BEHIND,
    GONE,
    IDLE,
    REWIND,
    SILENT,
    STALL,
    STEADY,
    STOP,
    WARN,
    WORDS,
)

KEYS = ["cluster", "group"]
# States of one partition that represent the whole group, in ascending priority.
MEMBER_STATES = (GONE, IDLE, SILENT, COMMITTING)
TRENDS = (STEADY, CATCHING_UP, FALLING_BEHIND)
OF_THE_GROUP = ["type", "state", "members"]


def group_summary(partitions: pd.DataFrame) -> pd.DataFrame:
    """
    Sum partitions with lag, status and expiry up to one row for each cluster and group.

    Columns: those of `lag_by_group` and `status_by_group`, type, state and members of the group;
    time_lag_s (maximum of its partitions; null where no more than 0 is known of a group of which
    it is unknown for a partition with lag), next_expiry_at (earliest expiry of its offsets),
    expires_immediately_if_stopped (number of offsets that would expire at once if it stopped),
    skew_s (maximum of its partitions).
    """
    grouped = partitions.groupby(KEYS, sort=False, dropna=False)
    table = grouped[OF_THE_GROUP].first()
    is_behind = partitions["lag"].ne(0).fillna(value=True)
    waits = partitions["time_lag_s"].isna() & _is_judged(partitions) & is_behind
    unknown = waits.groupby([partitions[key] for key in KEYS], sort=False, dropna=False).any()
    time_lag_s = grouped["time_lag_s"].max()
    table["time_lag_s"] = time_lag_s.mask(unknown & (time_lag_s == 0))
    table["next_expiry_at"] = grouped["expires_at"].min()
    table["expires_immediately_if_stopped"] = (
        grouped["expires_immediately_if_stopped"].sum().astype("Int64")
    )
    table["skew_s"] = grouped["skew_s"].max()
    status = status_by_group(partitions).set_index(KEYS)
    worst = {"worst_topic": "status_topic", "worst_partition": "status_partition"}
    table = table.join(status.rename(columns=worst))
    return lag_by_group(partitions).join(table, on=KEYS)


def status_by_group(partitions: pd.DataFrame) -> pd.DataFrame:
    """
    Sum partitions with status up to one row for each cluster and group.

    Columns: cluster, group; status (of the worst partition; STOP, STALL and REWIND become ERR, as
    in Burrow; null where none is worse than one of which it is unknown), worst_status (the
    partition's), status_why; ok, unsubscribed, held, warn, err, stop, stall, rewind, unknown
    (Int64: how many partitions); member_state (activity on any partition: "alive and committing"
    before "alive and silent", "alive and idle" and "gone"), trend (of any partition: "falling
    behind" before "catching up" and "steady"), worst_topic, worst_partition (of several, the one
    with the largest lag, then the first by name).
    """
    number = partitions.groupby(KEYS, sort=False, dropna=False).ngroup().to_numpy(dtype="int64")
    rank = _rank(partitions["status"], WORDS)
    lag = partitions["lag"].astype("Int64").to_numpy(dtype="int64", na_value=-1)
    topic = partitions["topic"].factorize(sort=True)[0]
    place = partitions["partition"].to_numpy(dtype="int64")
    # An unknown status may be any: a group is not OK because of its other partitions.
    is_doubtful = (rank < 0) & _is_judged(partitions).to_numpy()
    severity = np.where(is_doubtful, WORDS.index(WARN) - 0.5, rank)
    ordered = np.lexsort((place, topic, -lag, -severity, number))
    groups, first = np.unique(number[ordered], return_index=True)
    worst = partitions.iloc[ordered[first]].reset_index(drop=True)
    judged = worst["status"].notna() | is_doubtful[ordered[first]]
    width = len(WORDS) + 1
    counts = np.bincount(number * width + rank + 1, minlength=len(groups) * width)
    by_word = pd.DataFrame(counts.reshape(-1, width), columns=["unknown", *map(str.lower, WORDS)])
    table = worst[KEYS].assign(
        status=worst["status"].replace([STOP, STALL, REWIND], ERR),
        worst_status=worst["status"],
        status_why=worst["status_why"],
        **by_word[[*by_word.columns[1:], "unknown"]].astype("Int64"),
    )
    for name, known in (("member_state", MEMBER_STATES), ("trend", TRENDS)):
        best = np.full(len(groups), -1)
        np.maximum.at(best, number, _rank(partitions[name], known))
        table[name] = np.array([*known, None], dtype=object)[best]
    return table.assign(
        worst_topic=worst["topic"].where(judged),
        worst_partition=worst["partition"].astype("Int64").where(judged),
    )


def worst_first(groups: pd.DataFrame) -> pd.DataFrame:
    """Return groups by severity of `worst_status`, then by lag; an unknown status comes last."""
    severity = _rank(groups["worst_status"], WORDS)
    lag = groups["lag"].astype("Float64").to_numpy(dtype="float64", na_value=-1)
    return groups.iloc[np.lexsort((-lag, -severity))]


def _is_judged(partitions: pd.DataFrame) -> pd.Series[bool]:
    """Whether a status is to be expected: of a commit to a topic that exists, or may exist."""
    return partitions["committed"].notna() & (partitions["log_problem"] != NO_TOPIC)


def _rank(column: pd.Series[str], words: tuple[str, ...]) -> npt.NDArray[np.int64]:
    """Return the index of each word, -1 if missing."""
    places = {word: place for place, word in enumerate(words)}
    return column.map(places).fillna(-1).to_numpy(dtype="int64").astype(np.int64)


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
