"""What is said of a partition that was to be held, or to be let go."""

from __future__ import annotations

import pytest

from toolkit.operate.hold_steps import _became
from toolkit.plan import ChangeStatus


@pytest.mark.parametrize(
    ("was", "is_", "meant", "why", "status"),
    [
        (False, True, True, "", ChangeStatus.DONE),
        (True, False, False, "", ChangeStatus.DONE),
        (True, False, False, "the keeper did not answer", ChangeStatus.DONE),
        (False, False, True, "not captured", ChangeStatus.REFUSED),
        (True, True, False, "no right", ChangeStatus.REFUSED),
        (False, True, True, "its process ended", ChangeStatus.FAILED),
        (False, False, True, "", ChangeStatus.FAILED),
        (True, True, False, "", ChangeStatus.FAILED),
        (True, False, True, "its process ended", ChangeStatus.FAILED),
    ],
)
def test_what_is_said_of_a_partition(
    *, was: bool, is_: bool, meant: bool, why: str, status: ChangeStatus
) -> None:
    """Done is only what is as it was meant, and of a hold only where nothing went wrong."""
    assert status is _became(was=was, is_=is_, meant=meant, why=why)[0]
