"""One row for each group, of everything that is known of its partitions."""

from __future__ import annotations

import pandas as pd

from toolkit.planning.lag import lag_by_group
from toolkit.planning.status_by_group import status_by_group

KEYS = ["cluster", "group"]
OF_THE_GROUP = ["type", "state", "members"]


def group_summary(partitions: pd.DataFrame) -> pd.DataFrame:
    """
    Sum partitions with lag, status and expiry up to one row for each cluster and group.

    Columns: those of `lag_by_group` and `status_by_group`, type, state and members of the group;
    time_lag_s (the longest of its partitions), next_expiry_at (when the first of its offsets
    expires), at_once_if_stopped (how many would expire at once if the group stopped).
    """
    grouped = partitions.groupby(KEYS, sort=False, dropna=False)
    table = grouped[OF_THE_GROUP].first()
    table["time_lag_s"] = grouped["time_lag_s"].max()
    table["next_expiry_at"] = grouped["expires_at"].min()
    table["at_once_if_stopped"] = grouped["at_once_if_stopped"].sum().astype("Int64")
    status = status_by_group(partitions).set_index(KEYS)
    worst = {"worst_topic": "status_topic", "worst_partition": "status_partition"}
    table = table.join(status.rename(columns=worst))
    return lag_by_group(partitions).join(table, on=KEYS)
