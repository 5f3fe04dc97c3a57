"""A plan that was saved, taken up again."""

from __future__ import annotations

from pathlib import Path

from applications import Applications
from operators import Operator

from toolkit.journeys.reset import target
from toolkit.model import TopicPartition


def test_a_saved_move_of_nothing_has_nothing_to_do(
    operator: Operator, apps: Applications, tmp_path: Path
) -> None:
    """Where all offsets were where they were to go, its file is applied without a change."""
    topic, group = apps.create_topic(apps.name("orders"), records=3), apps.name("payments")
    operator.commit(group, {TopicPartition(topic, 0): 0})
    apps.join(group, [topic])
    change = operator.session.move(group, to=target("to-current"))
    assert ("move", ()) == (change.plan.intent, change.plan.steps)

    saved = operator.session.saved_change(change.save(tmp_path / "plan.json"))

    assert "nothing to do" == saved.decide(dry_run=False).message
