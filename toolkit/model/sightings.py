"""Repeated observations of earlier runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Sighting:
    """A series of consecutive readings with the same finding."""

    since: datetime  # time of the first reading
    seen: int  # number of readings
    last: datetime
