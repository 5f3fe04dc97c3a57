"""How the facts of a hold wait for a group that rebalances, without a broker."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from held import facts, group

from toolkit.model import GroupState, Snapshot
from toolkit.operate import hold_facts
from toolkit.operate.hold_facts import read_at_rest

STABLE = facts(group())
REBALANCING = facts(replace(group(), state=GroupState.RECONCILING))


@pytest.mark.parametrize(
    ("seen", "shown"),
    [
        ([STABLE], []),
        ([REBALANCING, REBALANCING, STABLE], ["begin", "end"]),
        ([REBALANCING] * 5, ["begin", "end"]),
    ],
)
def test_a_wait_for_a_rebalance_is_shown(
    monkeypatch: pytest.MonkeyPatch, seen: list[Snapshot], shown: list[str]
) -> None:
    """For as long as it lasts, and not where there is none; after a while it is given up."""
    monkeypatch.setattr(hold_facts, "READ_AGAIN_S", 0.01)
    monkeypatch.setattr(hold_facts, "AT_REST_WITHIN_S", 0.1)
    told, left = list[str](), iter(seen)

    @contextmanager
    def waiting() -> Iterator[None]:
        told.append("begin")
        yield
        told.append("end")

    found = read_at_rest(lambda: next(left, seen[-1]), {"g"}, waiting)

    assert (seen[-1], shown) == (found, told)
    assert [] == list(left)
