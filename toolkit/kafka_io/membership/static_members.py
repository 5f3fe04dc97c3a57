"""Heartbeats of a KIP-848 member that has an instance id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from toolkit.kafka_io.membership.consumer import Beat


@dataclass(frozen=True, slots=True)
class StaticBeat(Beat):
    """Join as a static member; later heartbeats, and leaving for good, need no instance id."""

    instance_id: str = ""

    def build(self, group_id: str) -> Any:
        """Return the protocol message."""
        message = Beat.build(self, group_id)
        message.instance_id = self.instance_id
        return message
