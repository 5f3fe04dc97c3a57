"""Resolve the clusters of a run and their cluster ids."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from toolkit.errors import ToolkitError
from toolkit.model import Cluster
from toolkit.storage.fleet_file import load_fleet

AT_ONCE = 8


def clusters_of(values: Mapping[str, object]) -> tuple[str, ...]:
    """
    Return the names in the parameters `cluster` and `clusters`; an empty `clusters` means all.

    Where the fleet file cannot be read, all are none: the notebook itself says why.
    """
    one, many = values.get("cluster"), values.get("clusters")
    names = [one, *(many if isinstance(many, list) else [many])]
    named = tuple(name for name in names if isinstance(name, str) and name)
    if many == []:
        return named or tuple(_fleet(values))
    return named


def cluster_ids(values: Mapping[str, object]) -> dict[str, str | None]:
    """Return the id of each cluster of a run; None where it is not in the fleet or is silent."""
    names, fleet = clusters_of(values), _fleet(values)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(names, pool.map(_id, [fleet.get(name) for name in names]), strict=True))


def _fleet(values: Mapping[str, object]) -> dict[str, Cluster]:
    named = values.get("fleet_file")
    try:
        return load_fleet(Path(named) if isinstance(named, str) and named else None)
    except ToolkitError:
        return {}


def _id(cluster: Cluster | None) -> str | None:
    # Slower to import than a wrong parameter may cost.
    from toolkit.kafka_io.client.connection import Connection  # noqa: PLC0415

    if cluster is None:
        return None
    try:
        with Connection(cluster) as connection:
            return connection.cluster_id or None
    except ToolkitError:
        return None
