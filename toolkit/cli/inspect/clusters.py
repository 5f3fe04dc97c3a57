"""`offsetbook clusters`: list the fleet file, and check that each cluster is reachable."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.options import CLUSTERS, FLEET, OUTPUT
from toolkit.cli.output import PARTLY, write_rows
from toolkit.errors import ToolkitError
from toolkit.model.rows import Kind, Rows

if TYPE_CHECKING:
    from toolkit.model import Cluster

COLUMNS: dict[str, Kind] = {
    **dict.fromkeys(("cluster", "address", "cluster_id"), "text"),
    **dict.fromkeys(("brokers", "groups"), "number"),
    "problem": "text",
}


@click.command("clusters")
@FLEET
@CLUSTERS
@OUTPUT
def command(*, fleet: Path | None, clusters: tuple[str, ...], output: str) -> None:
    """List the clusters in the fleet file and check that they are reachable."""
    from toolkit.journeys.cluster_access import find_clusters
    from toolkit.model.side_by_side import side_by_side

    chosen = find_clusters(clusters, fleet)
    rows = side_by_side(_knock, chosen)
    table = Rows(COLUMNS, [tuple(row[name] for name in COLUMNS) for row in rows])
    write_rows(table, output, important=("cluster", "problem", "address", "brokers", "groups"))
    if not any(row["problem"] for row in rows):
        sys.exit(0)
    sys.exit(PARTLY if any(row["brokers"] is not None for row in rows) else 1)


def _knock(cluster: Cluster) -> dict[str, Any]:
    from toolkit.kafka_io.client.connection import Connection
    from toolkit.kafka_io.groups.listing import find_hidden, list_groups

    row = {"cluster": cluster.name, "address": cluster.bootstrap_servers, "cluster_id": ""}
    try:
        with Connection(cluster) as connection:
            groups, problems = list_groups(connection)
            problems += [p for p in find_hidden(connection) if p.hides_groups]
            return row | {
                "cluster_id": connection.cluster_id,
                "brokers": len(connection.broker_ids),
                "groups": len(groups),
                "problem": "; ".join(f"{p.what}: {p.why}" for p in problems),
            }
    except ToolkitError as exc:
        return row | {"brokers": None, "groups": None, "problem": str(exc)}
