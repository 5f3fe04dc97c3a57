"""Requests of offsetbook's member in a classic group, and member ids that make it the leader."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from toolkit.errors import Interrupted, NotCaptured, ToolkitError
from toolkit.kafka_io.client.error_codes import ErrorCode, reason
from toolkit.kafka_io.membership.classic import ClassicHeartbeat, Join, Leave, Sync
from toolkit.kafka_io.membership.protocol_bytes import PROTOCOLS, ClassicProtocol
from toolkit.kafka_io.offsets_topic.partitions import java_hash
from toolkit.live.leader_hold import REBALANCE_TIMEOUT_MS
from toolkit.live.recipe_steps import LEAVE_TRIES, RecipeChannel, may_stay
from toolkit.model import TopicPartition
from toolkit.planning.holds.assignment import Shares

# How long a group waits for our member if we are killed during a capture.
CAPTURE_SESSION_MS = 10_000
DRAWN = 64  # member ids to choose one from
SMALLEST_TABLE = 16  # places of a Java HashMap for up to 12 members
CLIENT_ID_ENDS = -37  # a member id is the client id, a dash and 36 characters


@dataclass(slots=True)
class SentinelMember:
    """A sentinel: offsetbook's member in a classic group, and the requests that it sends."""

    protocol: ClassicProtocol
    session_timeout_ms: int = CAPTURE_SESSION_MS
    member_id: str = ""
    generation: int = -1
    topics: frozenset[str] = field(default_factory=frozenset)

    def join(self) -> Join:
        """Return a join with the subscription of the group, which keeps its offsets from expiry."""
        return self._join(self._offers(self.topics), self.session_timeout_ms)

    def join_quietly(self) -> Join:
        """Return a join that subscribes to nothing, so that the leader assigns it nothing."""
        return self._join(self._offers(()), CAPTURE_SESSION_MS)

    def rejoin_quietly(self) -> Join:
        """Return a quiet join with other protocols than `join_quietly`: it starts a rebalance."""
        join = self.join_quietly()
        return replace(join, protocols=join.protocols[:1])

    def wish(self, note: str) -> Join:
        """Return a join that asks the leading sentinel to pause the partitions named in a note."""
        return self._join(self._offers((), note), self.session_timeout_ms)

    def claim(self, place: TopicPartition) -> Join:
        """Return a join with the subscription of the group, claiming to own a partition."""
        claim = self.protocol.claim(self.topics, place)
        return self._join(
            self._offers(self.topics) | {self.protocol.name: claim}, CAPTURE_SESSION_MS
        )

    def _offers(self, topics: Iterable[str], note: str = "") -> dict[str, bytes]:
        # A client that shares no protocol with us would be rejected, so we offer all that we can
        # lead. Our vote goes to the first, the current one.
        offered = (self.protocol, *PROTOCOLS.values())
        return {one.name: one.subscription(topics, note) for one in offered}

    def _join(self, offers: Mapping[str, bytes], session_timeout_ms: int) -> Join:
        return Join(self.member_id, tuple(offers.items()), session_timeout_ms, REBALANCE_TIMEOUT_MS)

    def sync(self, assignments: Mapping[str, bytes]) -> Sync:
        """Return a sync: of the leader, with the assignments of all members."""
        return Sync(self.member_id, self.generation, self.protocol.name, assignments)

    def heartbeat(self) -> ClassicHeartbeat:
        return ClassicHeartbeat(self.member_id, self.generation)


@dataclass(slots=True)
class OwnIds:
    """
    The member ids of one capture that may be in the group, and a channel to its coordinator.

    An id is added as soon as the coordinator has assigned it, so that an interruption at any step
    leaves no member in the group.
    """

    channel: RecipeChannel
    ids: list[str] = field(default_factory=list)

    def draw_ids(self, member: SentinelMember, count: int) -> list[str]:
        """Return new member ids for quiet joins; see `draw`."""
        return self.draw(member.join_quietly(), count)

    def draw(self, join: Join, count: int) -> list[str]:
        """
        Return new member ids (KIP-394): a coordinator answers a join without one with a new id.

        No rebalance of the group ends while there is an id that has not joined.
        """
        answers = self.channel.ask_together([join] * count)
        drawn = [one.member_id for one in answers if one.error == ErrorCode.MEMBER_ID_REQUIRED]
        self.ids += drawn
        for answer in answers:
            if answer.error == ErrorCode.NONE:  # a broker without KIP-394: it is a member now
                self.ids.append(answer.member_id)
            if answer.error != ErrorCode.MEMBER_ID_REQUIRED:
                raise NotCaptured(
                    f"the coordinator rejected a new member: {reason(answer.error, 'Read')}"
                )
        return drawn

    def draw_id(self, member: SentinelMember, group_size: int, *, last: bool = False) -> str:
        """
        Return a member id that is among the first in the coordinator's table, or the last.

        Coordinators keep members in a hash table; when the leader leaves, the first one leads.
        """
        drawn = self.draw_ids(member, DRAWN)
        if not last and not any(stands_first(one, group_size + 1) for one in drawn):  # once in 60
            drawn += self.draw_ids(member, DRAWN)
        drawn.sort(key=lambda member_id: place_in_table(member_id, group_size + 1), reverse=last)
        chosen, *others = drawn
        self.leave(others)
        return chosen

    def leave(self, some: Collection[str]) -> None:
        """Remove some of the members from the group, and from the list."""
        if some:
            self.channel.ask(Leave(tuple(some)))
        self.ids[:] = [member_id for member_id in self.ids if member_id not in some]

    def leave_after(self, failure: BaseException) -> None:
        """
        Remove all members after a failed capture, even if interrupted again.

        If they may still be in the group, raises NotCaptured with both reasons, unless the capture
        was ended by something other than a ToolkitError.
        """
        for _ in range(LEAVE_TRIES):
            try:
                self.leave(list(self.ids))
            except (KeyboardInterrupt, Interrupted):
                continue
            except ToolkitError:
                break
            return
        if isinstance(failure, ToolkitError):
            raise NotCaptured(
                f"{failure.problem}; {may_stay(len(self.ids))}", hint=failure.hint
            ) from failure


def place_in_table(member_id: str, size: int) -> tuple[int, int]:
    """Return the buckets of a string in a Java HashMap of a size, and in one twice as large."""
    places, code = _places(size), java_hash(member_id)
    spread = code ^ (code >> 16)
    return spread & (places - 1), spread & (2 * places - 1)


def stands_first(member_id: str, size: int) -> bool:
    """Return whether a member is in the first part of a table, where a sentinel's id would be."""
    place, _ = place_in_table(member_id, size)
    return place < _places(size) // SMALLEST_TABLE


def _places(size: int) -> int:
    places = SMALLEST_TABLE
    while size > places * 3 // 4:
        places *= 2
    return places


def ids_before(shares: Shares, members: Iterable[str]) -> dict[str, str]:
    """Return the former id of each member: a member that is removed rejoins under another one."""
    here = set(members)
    before = {one: one for one in shares if one in here}
    gone = sorted(shares.keys() - here)
    for new in sorted(here - shares.keys()):
        same = (one for one in gone if one[:CLIENT_ID_ENDS] == new[:CLIENT_ID_ENDS])
        if former := next(same, None):
            gone.remove(former)
            before[new] = former
    return before
