"""Partitions without a committed offset are paused only after one is committed for them."""

from pathlib import Path

import pytest
from applications import Applications, eventually
from consumer_processes.live_applications import LiveApplications
from holding import carried_out
from live_groups import together
from operators import Operator, once_at_rest

from toolkit.model import TopicPartition

pytestmark = pytest.mark.live("consumers run")

BEFORE, MEANWHILE = 5, 60


def test_no_record_produced_during_a_pause_is_lost(apps: Applications, tmp_path: Path) -> None:
    """A consumer that starts at the end, and has read nothing yet, reads all of it afterwards."""

    def is_so(kind: str) -> None:
        operator = Operator(apps.cluster, tmp_path / f"state-{kind}")
        name = apps.create_topic(apps.name("first"), partitions=2)
        place = TopicPartition(name, 1)
        apps.produce(*place, BEFORE)
        with LiveApplications(
            apps.address, name, (name,), kind=kind, log=tmp_path / kind
        ) as consumers:
            consumers.start(
                "a", **{"auto.offset.reset": "latest", "auto.commit.interval.ms": 600_000}
            )
            eventually(lambda: place in owned(operator, name))
            session, scopes = operator.session, [f"{name}:1"]

            blocked = session.pause(name, scopes)
            paused = once_at_rest(
                lambda: carried_out(session.pause(name, scopes, commit_missing="latest"))
            )
            apps.produce(*place, MEANWHILE, key=name)  # as console consumers are asked to print
            resumed = carried_out(session.resume(name, scopes))

            assert ["no-committed-offset"] == [f.rule for f in blocked.findings if f.blocks]
            assert (True, True) == (paused.is_done, resumed.is_done)
            firsts = {c.partition: c.after for _, c in paused.change.plan.changes if c.after}
            assert BEFORE == firsts[place].offset
            wanted = [*range(BEFORE, BEFORE + MEANWHILE)]
            consumers.until(
                lambda all_: wanted == sorted({d.offset for d in all_ if d.place == place}),
            )

            undone = session.undo(paused.run_id)
            assert "stays-committed" in {finding.rule for finding in undone.findings}

    together(is_so, ("librdkafka-range", "librdkafka-consumer", "java-range"))


def owned(operator: Operator, group: str) -> set[TopicPartition]:
    return {p for g in operator.look(group).groups for m in g.members for p in m.assignment}
