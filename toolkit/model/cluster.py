"""A cluster: how to connect, and what may be changed there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Policy:
    """What may be changed on a cluster, and how much at once without an override."""

    read_only: bool = False
    protected_groups: tuple[str, ...] = ()  # names and shell patterns
    max_groups: int = 100
    max_partitions: int = 10_000
    max_records_skipped: int = 1_000_000
    max_records_repeated: int = 10_000_000


@dataclass(frozen=True, slots=True)
class Cluster:
    """One entry of the fleet file: a name, how to connect, and what may be changed."""

    name: str
    bootstrap_servers: str
    settings: Mapping[str, str] = field(
        default_factory=dict
    )  # secrets are references, never values
    policy: Policy = Policy()
