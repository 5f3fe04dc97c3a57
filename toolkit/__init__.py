"""
offsetbook: walk Kafka consumer groups from a question to a verified answer.

These are the public names. Each is loaded when it is first used, so that importing the package
loads no Spark, Jupyter or Kafka client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolkit.errors import ToolkitError
    from toolkit.kafka_io.snapshot import read_snapshot
    from toolkit.model import Cluster, Commit, Group, GroupState, GroupType, Member, Snapshot
    from toolkit.planning.frames import groups_frame, offsets_frame, problems_frame
    from toolkit.planning.lag import lag_by_group, with_lag
    from toolkit.planning.unsubscribed import find_unsubscribed
    from toolkit.report.charts import show_lag_chart, show_leftover_chart
    from toolkit.report.tables import show_problems, show_table
    from toolkit.runbook import conclude, run_notebook
    from toolkit.spark.fleet_lag import fleet_lag
    from toolkit.spark.session import start_session
    from toolkit.storage.fleet_file import choose_clusters, load_fleet

_HOME = {
    "Cluster": "model",
    "Commit": "model",
    "Group": "model",
    "GroupState": "model",
    "GroupType": "model",
    "Member": "model",
    "Snapshot": "model",
    "ToolkitError": "errors",
    "choose_clusters": "storage.fleet_file",
    "conclude": "runbook",
    "find_unsubscribed": "planning.unsubscribed",
    "fleet_lag": "spark.fleet_lag",
    "groups_frame": "planning.frames",
    "lag_by_group": "planning.lag",
    "load_fleet": "storage.fleet_file",
    "offsets_frame": "planning.frames",
    "problems_frame": "planning.frames",
    "read_snapshot": "kafka_io.snapshot",
    "run_notebook": "runbook",
    "show_lag_chart": "report.charts",
    "show_leftover_chart": "report.charts",
    "show_problems": "report.tables",
    "show_table": "report.tables",
    "start_session": "spark.session",
    "with_lag": "planning.lag",
}

__all__ = [
    "Cluster",
    "Commit",
    "Group",
    "GroupState",
    "GroupType",
    "Member",
    "Snapshot",
    "ToolkitError",
    "choose_clusters",
    "conclude",
    "find_unsubscribed",
    "fleet_lag",
    "groups_frame",
    "lag_by_group",
    "load_fleet",
    "offsets_frame",
    "problems_frame",
    "read_snapshot",
    "run_notebook",
    "show_lag_chart",
    "show_leftover_chart",
    "show_problems",
    "show_table",
    "start_session",
    "with_lag",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
