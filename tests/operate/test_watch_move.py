"""What the commits after a move show, without a broker."""

import time

import pytest

from toolkit.kafka_io.membership.channel import clock
from toolkit.kafka_io.offsets_topic.commit_follower import NewCommit
from toolkit.model import HOLDER_CLIENT_ID, Group, GroupState, GroupType, Member, TopicPartition
from toolkit.model.groups import Subscription
from toolkit.operate import watch_move
from toolkit.operate.watch_move import MoveWatch
from toolkit.planning.holds.continuation import MovedOffset, MoveEvidence

PLACE, PAUSED = TopicPartition("orders", 1), TopicPartition("orders", 2)
HOLDER = Member(
    "!h", HOLDER_CLIENT_ID, "/10.0.0.9", Subscription(), assignment=(PAUSED,), holds=(PAUSED,)
)


class Commits:
    """The commits of a group that are seen at the next look."""

    has_every_commit = True

    def __init__(self, *_: object) -> None:
        self.new = [NewCommit(PLACE, 1001, 0)]  # of a record that the last owner had in its hands

    def mark(self) -> None:
        """Read up to here."""

    def read(self) -> list[NewCommit]:
        return self.new


@pytest.mark.parametrize(
    ("kind", "state", "evidence", "is_at_rest"),
    [
        (GroupType.CONSUMER, GroupState.STABLE, MoveEvidence.OVERWRITTEN, True),
        (GroupType.CONSUMER, GroupState.RECONCILING, MoveEvidence.OVERWRITTEN, True),
        (GroupType.CLASSIC, GroupState.STABLE, MoveEvidence.OVERWRITTEN, True),
        (GroupType.CLASSIC, GroupState.COMPLETING_REBALANCE, MoveEvidence.UNCLEAR, False),
    ],
)
def test_a_late_commit_is_recognised_if_owners_are_shown(
    monkeypatch: pytest.MonkeyPatch,
    kind: GroupType,
    state: GroupState,
    evidence: MoveEvidence,
    *,
    is_at_rest: bool,
) -> None:
    """A KIP-848 group shows them in every state, and is never Stable during a pause."""
    group = Group("payments", kind, state, members=(HOLDER,))
    monkeypatch.setattr(watch_move, "GroupCommits", Commits)
    monkeypatch.setattr(watch_move, "describe_groups", lambda *_: [group])
    watch = MoveWatch(None, group, {PLACE: MovedOffset(500, 1000, 90_000)})  # type: ignore[arg-type]

    watch._look(clock() - 0.5)

    assert (evidence, is_at_rest) == (watch.partitions[PLACE].evidence, watch.is_at_rest)


def test_an_application_may_read_while_the_machine_sleeps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it has read meanwhile is no late commit, and not moved again."""
    asleep_s, gettime = [0.0], time.clock_gettime
    monkeypatch.setattr(time, "clock_gettime", lambda which: gettime(which) + asleep_s[0])

    class CommitsAfterSleep(Commits):
        """A commit of far on, while the machine sleeps for a while."""

        def read(self) -> list[NewCommit]:
            asleep_s[0] += watch_move.WATCH_S / 2
            found, self.new = self.new, []
            return [NewCommit(PLACE, 1_000_000)] if found else []

    reader = Member("a", "a", "/10.0.0.1", Subscription(), assignment=(PLACE,))
    group = Group("payments", GroupType.CONSUMER, GroupState.STABLE, members=(reader,))
    monkeypatch.setattr(watch_move, "GroupCommits", CommitsAfterSleep)
    monkeypatch.setattr(watch_move, "describe_groups", lambda *_: [group])
    monkeypatch.setattr(watch_move, "read_log_offsets", lambda *_: ({}, []))
    watch = MoveWatch(None, group, {PLACE: MovedOffset(500, 1000, 2_000_000)})  # type: ignore[arg-type]

    assert "within 35 s" == watch.run(str)
    assert MoveEvidence.UNCLEAR is watch.partitions[PLACE].evidence
