"""What our own readings have seen, again and again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Sighting:
    """An unbroken series of readings that all found the same."""

    since: datetime  # the first of them
    seen: int  # how many there were
    last: datetime
