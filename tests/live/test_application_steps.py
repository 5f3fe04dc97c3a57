"""A hold of a Streams application (KIP-1071) step by step: late, lost, and refused."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from recipe_runs import ScriptedChannel, orders

from toolkit.errors import BrokerRefused, ClusterUnreachable, HoldLost, NotCaptured
from toolkit.kafka_io.membership.consumer import LEAVE_EPOCH
from toolkit.kafka_io.membership.group_config import (
    STREAMS_DELAY_MS,
    ChangeConfig,
    ConfigFound,
    FetchGroupConfig,
)
from toolkit.kafka_io.membership.request import ErrorCodeResult
from toolkit.kafka_io.membership.streams import (
    DescribedStreamsMember,
    DescribeStreams,
    StreamsFacts,
    StreamsHeartbeat,
    StreamsHeartbeatResult,
)
from toolkit.live.application_hold import DELAY_S, LOST_AFTER_S, ApplicationHold
from toolkit.model import HOLDER_CLIENT_ID, HoldNote, TopicPartition

ALL = orders(0, 1)
OWN = f"{DELAY_S * 1000:.0f}"


@dataclass
class Coordinator(ScriptedChannel):
    """A coordinator of one application, whose members come back as soon as they are evicted."""

    readers: dict[str, frozenset[TopicPartition]] = field(default_factory=lambda: {"app-1": ALL})
    holders: list[str] = field(default_factory=list)
    own: dict[str, str] = field(default_factory=dict)  # what is set for the group
    leave_error: int = 0
    is_away: bool = False  # whether it does not answer who leaves
    stops_s: float = 0.0  # how long our process is stopped in its next sleep
    evicted: list[str] = field(default_factory=list)

    def answer(self, request: Any) -> Any:
        match request:
            case DescribeStreams():
                return self.described()
            case FetchGroupConfig():
                return ConfigFound(0, values={STREAMS_DELAY_MS: "3000"}, own=dict(self.own))
            case ChangeConfig(name, value):
                self.own.pop(name, None)
                self.own |= {} if value is None else {name: value}
                return ErrorCodeResult(0)
            case StreamsHeartbeat(member_id) if request.epoch == LEAVE_EPOCH:
                return self.leave(member_id)
            case StreamsHeartbeat(member_id, topology=topology):
                if topology is not None:
                    self.holders.append(member_id)
                is_there = member_id in self.holders
                return StreamsHeartbeatResult(0 if is_there else 25, "unknown", 5)
        raise AssertionError(request)

    def described(self) -> StreamsFacts:
        ours = [
            DescribedStreamsMember(one, HOLDER_CLIENT_ID, 5, orders(), orders())
            for one in self.holders
        ]
        theirs = [DescribedStreamsMember(o, "app", 5, has, has) for o, has in self.readers.items()]
        topology = SimpleNamespace(epoch=3, subtopologies=[])
        return StreamsFacts(0, "", "Stable", (*ours, *theirs), topology)

    def leave(self, member_id: str) -> StreamsHeartbeatResult:
        if self.is_away:
            raise ClusterUnreachable("not allowed to go")
        if self.leave_error:
            return StreamsHeartbeatResult(self.leave_error, "not allowed")
        if member_id in self.readers:
            self.readers[member_id] = orders()
            self.evicted.append(member_id)
        elif member_id in self.holders:
            self.holders.remove(member_id)
        else:
            return StreamsHeartbeatResult(25, "unknown")
        return StreamsHeartbeatResult(0)

    def sleep(self, seconds: float) -> float:
        """Put the clock forward; who is not heard of for a session is removed."""
        now = super().sleep(seconds + self.stops_s)
        if self.stops_s:
            self.stops_s = 0.0
            self.goes_on()
        return now

    def goes_on(self, *, is_there: bool = False) -> None:
        """Give the application its tasks, as when the delay is over."""
        self.readers = dict.fromkeys(self.readers, ALL)
        self.holders = self.holders if is_there else []
        self.evicted.clear()


def captured() -> tuple[ApplicationHold, Coordinator]:
    hold, group = ApplicationHold(note=HoldNote(who="ann")), Coordinator()
    hold.capture(group, ALL)
    hold.keep(group)
    assert (ALL, 1, {STREAMS_DELAY_MS: OWN}) == (hold.held, len(group.holders), group.own)
    return hold, group


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize(("after_s", "is_late"), [(LOST_AFTER_S - 5, False), (3 * 3600, True)])
def test_an_application_that_ran_for_long_is_not_paused_again(
    after_s: float, *, is_there: bool, is_late: bool
) -> None:
    """After a brief gap it is paused again; after a long one no member is evicted."""
    hold, group = captured()
    group.clock += after_s
    group.goes_on(is_there=is_there)

    with pytest.raises(HoldLost if is_late else BrokerRefused, match=r"not paused|evicted again"):
        hold.keep(group)

    if is_late:
        assert (orders(), [], []) == (hold.held, group.holders, group.evicted)
        assert {} == group.own
    else:
        assert (ALL, 1, ["app-1"]) == (hold.held, len(group.holders), group.evicted)


def test_a_keeper_stopped_around_the_end_of_the_delay_evicts_nobody() -> None:
    """It was in the middle of evicting all members, and had read the group before."""
    hold, group = captured()
    group.clock += DELAY_S - 1
    group.stops_s = 3 * 3600

    with pytest.raises(HoldLost, match="not paused again"):
        hold.keep(group)

    assert ([], []) == (group.evicted, group.holders)


def test_a_keeper_that_takes_over_pauses_again() -> None:
    """It is there at once, or the same was paused again."""
    hold, group = captured()
    other = ApplicationHold.from_state(hold.state(), note=hold.note)
    group.clock += 3 * 3600
    group.goes_on()

    with pytest.raises(BrokerRefused, match="evicted again"):
        other.keep(group)
    assert ALL == other.held


def test_a_release_reports_that_the_application_ran_before() -> None:
    """Its setting is restored, unless another operator needs it."""
    for others in ([], ["other"]):
        hold, group = captured()
        group.holders = others
        with pytest.raises(HoldLost, match="no longer in the group"):
            hold.release(group, ALL)
        assert (orders(), others) == (hold.held, group.holders)
        assert ({STREAMS_DELAY_MS: OWN} if others else {}) == group.own


@pytest.mark.parametrize("is_refused", [True, False])
def test_a_hold_that_could_not_be_released_continues(*, is_refused: bool) -> None:
    """With its delay: that of the cluster would assign tasks every 3 s."""
    hold, group = captured()
    group.leave_error, group.is_away = 30, not is_refused
    with pytest.raises((BrokerRefused, ClusterUnreachable), match="not allowed"):
        hold.release(group, ALL)
    assert (ALL, {STREAMS_DELAY_MS: OWN}) == (hold.held, group.own)


def test_a_release_reports_a_setting_that_is_not_restored() -> None:
    """The application continues all the same."""
    hold, group = captured()
    group.fail(ClusterUnreachable("gone"), at=2, is_heard=False)

    with pytest.raises(BrokerRefused, match=f"{STREAMS_DELAY_MS} was not restored: gone"):
        hold.release(group, ALL)

    assert (orders(), []) == (hold.held, group.holders)


def test_a_capture_reports_what_it_could_not_undo() -> None:
    """The reason first, then the setting, and the member that may still be there."""
    hold, group = ApplicationHold(note=HoldNote()), Coordinator()
    for at in (4, 5, 6):
        group.fail(ClusterUnreachable("gone"), at=at, is_heard=False)

    words = f"^gone; {STREAMS_DELAY_MS} was not restored: gone; 1 offsetbook member may stay"
    with pytest.raises(NotCaptured, match=words):
        hold.capture(group, ALL)
