"""Offsets without a record that a consumer would get are skipped without a word."""

from __future__ import annotations

import pytest
from applications import Applications
from operators import Operator

from toolkit.errors import Blocked
from toolkit.model import TopicPartition
from toolkit.planning.changes.targets import ToLatest
from toolkit.session import Session


@pytest.mark.parametrize(
    ("after", "unread"),
    [
        pytest.param([], 0, id="the marker of the last transaction"),
        pytest.param([(5, False)], 0, id="an aborted transaction"),
        pytest.param([(5, False), (1, True)], 2, id="a record after an aborted transaction"),
    ],
)
def test_what_is_left_of_a_log(
    operator: Operator, apps: Applications, after: list[tuple[int, bool]], unread: int
) -> None:
    """A reset to the end is blocked by records alone; behind the first, all offsets may be some."""
    place = TopicPartition(apps.create_topic(apps.name("orders")), 0)
    apps.write_transactions(place, (3, True), *after)
    group = apps.name("payments")
    operator.commit(group, {place: 3})

    change = Session(operator.cluster, operator.state).reset([group], to=ToLatest())

    blocking = [(f.rule, f.why) for f in change.findings if f.blocks]
    if unread:
        why = f"at most {unread} unread records would be skipped"
        assert [("skips-unread-records", why)] == blocking
        with pytest.raises(Blocked, match=why):
            operator.apply(change.plan)
        return
    assert [] == blocking
    assert operator.apply(change.plan).is_done
    end = 4 + sum(records + 1 for records, _ in after)
    assert end == operator.held(group)[group][place].offset
