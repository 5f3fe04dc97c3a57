"""A cluster: connection settings and change policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from toolkit.model.names import matches

DEFAULT_TIMEOUT_S = 15.0


@dataclass(frozen=True, slots=True)
class Policy:
    """Change policy of a cluster, and limits per run without an override."""

    read_only: bool = False
    reason: Literal["required", "optional"] = "required"
    protected_groups: tuple[str, ...] = ()  # names and shell patterns, as the next
    ignored_groups: tuple[str, ...] = ()  # left out wherever a group is not named
    max_groups: int = 100
    max_partitions: int = 10_000
    max_records_skipped: int = 1_000_000
    max_records_repeated: int = 10_000_000

    def ignores(self, group_id: str) -> bool:
        """Whether a group is left out where it is not named."""
        return any(matches(group_id, entry) for entry in self.ignored_groups)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the settings of a cluster come from, in the words of a hint ("set it in ...")."""

    settings: str = "the fleet file"
    timeout: str = "timeout in the fleet file"


@dataclass(frozen=True, slots=True)
class Cluster:
    """One entry of the fleet file: name, connection settings and change policy."""

    name: str
    bootstrap_servers: str
    settings: Mapping[str, str] = field(
        default_factory=dict
    )  # secrets are references, never values
    policy: Policy = Policy()
    timeout_s: float = DEFAULT_TIMEOUT_S  # to connect and log in, and for each request
    origin: Origin = field(default=Origin(), compare=False)
