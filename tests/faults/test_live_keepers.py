"""What becomes of a hold when the process behind it is gone, with every delivered record logged."""

import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from applications import eventually
from consumer_processes.analysis import longest_silence
from holding import Holding, MakeHolding, has_joined, is_rebalancing, kill_keepers
from live_groups import COMMITS_SOON, EACH_PROTOCOL, together
from operators import Operator
from processes import suspended

pytestmark = pytest.mark.faults("keepers are killed and stopped")

# The last heartbeat is up to 2 s before the kill. The rest is for delays of broker and test.
ROOM_S = 5.0
LOCKS = Path("/proc/locks")


def test_keepers_that_are_killed(operator: Operator, new_holding: MakeHolding) -> None:
    """
    Partitions whose keeper and standby were killed are read again when the session is over.

    Each from its committed offset, and not before the session is over; nothing else is disturbed,
    and no record is lost. Where only the keeper was killed its standby goes on, nothing
    is delivered in between, and the other partitions do not stop, also if a member joins just then.
    The next keeper has a standby as well.
    """
    alone = [new_holding(operator.cluster, kind) for kind in EACH_PROTOCOL]
    followed = [new_holding(operator.cluster, kind) for kind in EACH_PROTOCOL]
    together(Holding.pause, [*alone, *followed])
    together(until_followed, followed)
    committed = [one.committed() for one in alone]

    killed = {one.live.group: kill_and_follow(one) for one in followed}
    killed |= {one.live.group: kill_keepers(one.path) for one in alone}
    removed = removed_at(alone)
    for one, offsets in zip(alone, committed, strict=True):
        at = killed[one.live.group]
        name = one.live.applications.kind.name
        over = at + (one.record.note.survives_s or 0)
        one.live.applications.until_delivered(one.places, since=at)
        assert [] == one.leaked(until=over - ROOM_S), name
        assert over - ROOM_S < removed[one.live.group], name
        assert offsets == one.first_offsets(at), name
        assert frozenset() == one.paused, name
        one.live.applications.until_nothing_is_missing(one.live.places)

    outlived = max(killed.values()) + max(one.record.note.survives_s or 0 for one in followed)
    eventually(lambda: time.time() > outlived + ROOM_S)  # it would have ended
    for one in followed:
        assert [] == one.leaked()
        assert one.places == one.paused
        log = one.live.applications.deliveries()
        at = killed[one.live.group]
        rest_s = max(longest_silence(log, place, at, time.time()) for place in one.others)
        # The others have not waited for the session of the killed keeper, which is 45 s.
        assert rest_s < (one.record.note.survives_s or 0) / 2
        one.resume_in_place()


def until_followed(held: Holding) -> None:
    """Wait until the keeper has a standby that waits for its lock."""
    inode = f":{held.path.with_suffix('.lock').stat().st_ino} "

    def is_waited_for() -> bool:
        return any("->" in line and inode in line for line in LOCKS.read_text().splitlines())

    eventually(is_waited_for)


def kill_and_follow(held: Holding) -> float:
    """
    Kill a keeper, and in a classic group the next one while a member joins; each is followed.

    Returns when the first one died.
    """
    first_at = kill_and_wait(held)
    if held.live.applications.kind.is_classic:
        held.live.applications.start("c", **COMMITS_SOON)
        with held.describing() as describe:
            eventually(lambda: is_rebalancing(describe()))
        kill_and_wait(held)
    return first_at


def kill_and_wait(held: Holding) -> float:
    """Kill a keeper, wait until its standby has taken over and has one itself."""
    before = held.record.pid
    at = held.kill_keeper()
    eventually(lambda: held.record.pid not in {0, before})
    until_followed(held)
    return at


def removed_at(all_held: list[Holding]) -> dict[str, float]:
    """Return when the coordinator of each group has removed the members of a killed keeper."""
    found: dict[str, float] = {}

    def are_all_removed() -> bool:
        for held in all_held:
            if held.live.group not in found and not has_joined(describe[held.live.group]()):
                found[held.live.group] = time.time()
        return len(found) == len(all_held)

    with ExitStack() as channels:
        describe = {held.live.group: channels.enter_context(held.describing()) for held in all_held}
        eventually(are_all_removed)
    return found


def test_a_keeper_that_gets_sigterm(operator: Operator, new_holding: MakeHolding) -> None:
    """Its standby does not take over from a keeper that has resumed its partitions, and ends."""
    held = new_holding(operator.cluster, "librdkafka-consumer")
    held.pause()
    until_followed(held)

    held.resume_in_place()
    eventually(lambda: not held.keepers)

    assert "resumed" == held.last_words()
    held.live.applications.until_nothing_is_missing(held.live.places)


def test_a_keeper_that_was_stopped_until_its_member_was_removed(
    operator: Operator, new_holding: MakeHolding
) -> None:
    """Its standby does not take over; when the keeper continues it ends, and captures nothing."""
    held = new_holding(operator.cluster, "librdkafka-range")
    held.pause()
    until_followed(held)
    keeper = held.record.pid

    with suspended(keeper):
        held.live.end_holds()  # as the coordinator does when the session is over
        held.live.applications.until_delivered(held.places)
        assert (keeper, "held") == (held.record.pid, str(held.record.status))
    eventually(lambda: not held.keepers)

    assert "hold lost" in held.last_words()
    assert keeper == held.record.pid
    held.live.applications.until_nothing_is_missing(held.live.places)
