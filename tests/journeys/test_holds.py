"""What a notebook about live groups is asked for, and what of that is refused at once."""

from __future__ import annotations

from typing import Any

import pytest

from toolkit.errors import UsageError
from toolkit.journeys.holds import HoldRequest, MoveWish
from toolkit.planning.changes.targets import ToEarliest


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"action": "Pause"}, "'Pause' is no action"),
        ({"group": ""}, "no group is named"),
        ({"prefer": "soft"}, "'soft' is no way"),
        ({"hold_for": "soon"}, "'soon' is not a duration"),
        ({"topics": ["orders:x"]}, "not a partition number"),
    ],
)
def test_a_hold_that_makes_no_sense(changed: dict[str, Any], says: str) -> None:
    """It is refused before anything is read, and the parameter is named."""
    wanted = {"action": "pause", "group": "g", "topics": ["orders:1"], **changed}
    with pytest.raises(UsageError, match=says):
        HoldRequest(**wanted)


@pytest.mark.parametrize("groups", [[], ["g", "h"]])
def test_a_move_is_of_one_group(groups: list[str]) -> None:
    """Live groups are moved one at a time."""
    with pytest.raises(UsageError, match="exactly one live group"):
        MoveWish(ToEarliest(), groups)


def test_a_move_is_held_in_a_known_way() -> None:
    """What `live` says is a way to capture partitions."""
    with pytest.raises(UsageError, match="'yes' is no way"):
        MoveWish(ToEarliest(), ["g"], prefer="yes")
