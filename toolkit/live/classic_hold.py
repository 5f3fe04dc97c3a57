"""
Hold partitions of a classic group: an offsetbook member leads it and leaves them unassigned.

The others are told who gets what with exactly the bytes of their own protocol. What is paused, and
a note about it, is in what our member assigns to itself, where everybody can read it. When it
leaves, or has not been heard of for its session timeout, a member of the group leads again.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping
from typing import Any, Self

from toolkit.errors import HoldLost, NotCaptured
from toolkit.kafka_io.membership.classic import (
    ClassicFacts,
    ClassicHeartbeat,
    DescribeClassic,
    JoinResult,
    Leave,
)
from toolkit.kafka_io.membership.protocol_bytes import (
    protocol_named,
    read_subscription,
)
from toolkit.live.choose_capture import (
    capture_lead,
    count_partitions,
)
from toolkit.live.classic_member import SentinelMember, ids_before, leave
from toolkit.live.former_owners import FormerOwners
from toolkit.live.leader_hold import BEAT_S
from toolkit.live.recipe_steps import RecipeGenerator, Sleep
from toolkit.live.rival_captures import (
    LOOK_TO_JOIN_S,
    AnotherCapture,
    AnotherHold,
    GaveUp,
    refuse_another_hold,
    refuse_what_others_hold,
)
from toolkit.live.shared_hold import SharedHold, is_sentinel
from toolkit.model import CaptureMode, GroupState, HoldNote, TopicPartition
from toolkit.model.groups import SESSION_TIMEOUT_S
from toolkit.planning.holds.assignment import CutAssignment, Subscriber, assign

CONTEST_TRIES = 3
SECOND_STEP_S = 8.0  # two heartbeats by default, and some room
LET_GO_S = 3.0  # a member that joins again when it has let go does so in less, unless it is slow
COUNTS_EVERY_S = 5.0  # how often partitions that were added are looked for
LET_GO_WITHIN_S = 60.0


class ClassicHold(SharedHold):
    """Partitions that a classic group's members do not get, because a member of ours leads it."""

    def __init__(
        self,
        *,
        note: HoldNote,
        session_timeout_s: float = SESSION_TIMEOUT_S,
        prefer: CaptureMode = CaptureMode.LOSSLESS,
    ) -> None:
        """
        Hold nothing yet; a hold survives the process behind it for `session_timeout_s`.

        What is preferred counts for groups of cooperative members only.
        """
        super().__init__(note=note, session_timeout_s=session_timeout_s)
        self.prefer = prefer
        self._former_ids: dict[str, str] = {}  # of members that were removed and came back
        self._counts: Mapping[str, int] = {}
        self._count_at = 0.0
        self._due_at = math.inf  # when a second step is taken, should no member ask for it

    def capture(self, wanted: frozenset[TopicPartition]) -> RecipeGenerator[None]:
        """Hold these too: all of them or none; returns when nobody has one of them any more."""
        if wanted <= self.held:
            return
        before = self.held
        ours: list[str] = []
        try:
            joined = None
            if self._member is None:
                former, joined = yield from self._become_member(wanted, ours)
            else:
                yield from refuse_what_others_hold(wanted, self._joined().member_id)
                former = self._former_owners((yield DescribeClassic()), wanted - before)
            self.held = before | wanted
            yield from self._rebalance(joined)
            yield from self._check_granted()
            yield from self._until_released(former)
        except BaseException as exc:
            self.held = before
            self._changed = True
            if ours and not isinstance(exc, GeneratorExit):
                self._member = None
                yield Leave(tuple(ours))
            if ours and isinstance(exc, HoldLost):
                raise NotCaptured(
                    f"capture failed: {exc.problem}", hint="run the command again"
                ) from exc
            raise

    def release(self, some: frozenset[TopicPartition]) -> RecipeGenerator[None]:
        """Give these back; with the last of them our member leaves."""
        yield from self._keep_only(self.held - some)

    def state(self) -> dict[str, Any]:
        """Return what another process needs to go on."""
        member = self._joined()
        return {
            "member_id": member.member_id,
            "generation": member.generation,
            "protocol": member.protocol.name,
            "topics": sorted(member.topics),
            "session_timeout_s": self.survives_s,
            "held": sorted(self.held),
            "counts": dict(self._counts),
            "shares": {one: sorted(share) for one, share in self._shares.items()},
            "former_ids": self._former_ids,
            "keeps_shares": self._keeps_shares,
            "follows": self._follows,
            "others": {one: sorted(share) for one, share in self._others.items()},
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], *, note: HoldNote) -> Self:
        """Return a hold that another process began."""
        hold = cls(note=note, session_timeout_s=state["session_timeout_s"])
        hold._member = SentinelMember(
            protocol_named(state["protocol"]),
            round(hold.survives_s * 1000),
            state["member_id"],
            state["generation"],
            frozenset(state["topics"]),
        )
        hold.held = _places(state["held"])
        hold._counts = dict(state["counts"])
        hold._shares = {one: _places(share) for one, share in state["shares"].items()}
        hold._former_ids = dict(state["former_ids"])
        hold._keeps_shares = state.get("keeps_shares", False)
        hold._follows, hold._granted = state.get("follows", False), hold.held
        hold._others = {one: _places(share) for one, share in state.get("others", {}).items()}
        return hold

    def _become_member(
        self, wanted: frozenset[TopicPartition], ours: list[str]
    ) -> RecipeGenerator[tuple[FormerOwners, JoinResult | None]]:
        """Become the leader, or a member beside a leader of ours that holds other partitions."""
        for left in reversed(range(CONTEST_TRIES)):
            try:
                return (yield from self._contend(wanted, ours))
            except GaveUp:  # so did we, if both took long to join
                if not left:
                    raise
                yield Sleep(random.uniform(0, LOOK_TO_JOIN_S))  # noqa: S311 - so as not to meet again
            except AnotherHold as exc:
                if wanted & exc.paused:
                    raise
                break
        group = yield from self._begin_to_follow(ours)
        return self._former_owners(group, wanted), None

    def _contend(
        self, wanted: frozenset[TopicPartition], ours: list[str]
    ) -> RecipeGenerator[tuple[FormerOwners, JoinResult]]:
        try:
            return (yield from self._become_leader(wanted, ours))
        except AnotherCapture:
            yield from leave(tuple(ours), ours)
            return (yield from refuse_another_hold())

    def _become_leader(
        self, wanted: frozenset[TopicPartition], ours: list[str]
    ) -> RecipeGenerator[tuple[FormerOwners, JoinResult]]:
        quietly = self.prefer is CaptureMode.QUIET
        captured = yield from capture_lead(self.survives_s, ours, quietly=quietly)
        self._member, self._counts = captured.member, captured.counts
        self._follows = False
        self._learn_shares(captured.group, captured.counts)
        return self._former_owners(captured.group, wanted), captured.joined

    def _former_owners(
        self, group: ClassicFacts, wanted: frozenset[TopicPartition]
    ) -> FormerOwners:
        owners = {member_id for member_id, share in self._shares.items() if share & wanted}
        former = FormerOwners()
        former.add(group.members, owners)
        return former

    def _heartbeat(self) -> ClassicHeartbeat:
        return self._joined().heartbeat()

    def _is_due(self) -> RecipeGenerator[bool]:
        """Return whether a second step is to be taken, or a topic has grown."""
        if self._follows:  # the leader does both
            return False
        now = yield Sleep(0)
        grown = False
        if now >= self._count_at:
            self._count_at = now + COUNTS_EVERY_S
            grown = self._counts != (yield from count_partitions(self._counts, self._counts))
        return grown or bool(now >= self._due_at)

    def _lead(self, joined: JoinResult) -> RecipeGenerator[int]:
        if not joined.leads:
            return (yield from self._follow(joined))
        self._follows = False
        member = self._joined()
        member.generation = joined.generation
        member.protocol = protocol_named(joined.protocol)  # they may change it meanwhile
        assignments = yield from self._assign_partitions(joined)
        synced = yield member.sync(assignments)
        return int(synced.error)

    def _assign_partitions(self, joined: JoinResult) -> RecipeGenerator[dict[str, bytes]]:
        """Compute the assignment of all members without the held partitions."""
        member, notes = self._joined(), self._share_out(joined)
        subscribers = list(self._subscribers(joined))
        member.topics = frozenset().union(*(one.topics for one in subscribers)) or member.topics
        self._counts = yield from count_partitions(member.topics, self._counts)
        name = "" if self._keeps_shares else member.protocol.name
        cooperative = member.protocol.cooperative
        found = assign(
            subscribers, self._counts, paused=self._paused, assignor=name, cooperative=cooperative
        )
        owned = frozenset().union(*(one.owned for one in subscribers))
        self._unreleased = self._paused & owned if cooperative else frozenset()
        self._shares = found.whole
        self._due_at = (yield Sleep(0)) + self._patience_s(found)
        assignments = {
            one: member.protocol.assignment(share, generation=member.generation)
            for one, share in found.shares.items()
        }
        return assignments | notes

    def _patience_s(self, found: CutAssignment) -> float:
        """
        Return after what time members are asked to join once more, should none do so by itself.

        Who has to let go of something does, unless it was removed from the group before: librdkafka
        comes back claiming what it had, though it has let go of that, and so has nothing to do.
        """
        if self._unreleased:
            return LET_GO_S
        return SECOND_STEP_S if found.withheld else math.inf

    def _subscribers(self, joined: JoinResult) -> Iterable[Subscriber]:
        """
        Yield the group's members without ours, with what they own or had last.

        Who was removed comes back under another id, and keeps its place among the others.
        """
        members = {one: data for one, data in joined.members.items() if not is_sentinel(one)}
        before = ids_before(self._shares, members)
        self._former_ids = {one: self._former_ids.get(id_, id_) for one, id_ in before.items()}
        for member_id, data in members.items():
            subscribed = read_subscription(data)
            if subscribed is None:
                # It gets nothing, as from a leader that cannot read it either.
                yield Subscriber(member_id, frozenset())
                continue
            had = self._shares.get(before.get(member_id, ""), frozenset())
            yield Subscriber(
                member_id,
                subscribed.topics,
                subscribed.owned,
                subscribed.generation,
                had=frozenset() if subscribed.owned else had,
                paused=had & self._paused,
                instance_id=joined.instances.get(member_id, ""),
                former_id=self._former_ids.get(member_id, ""),
            )

    def _until_released(self, former: FormerOwners) -> RecipeGenerator[None]:
        """Wait until no member says that it owns what is held, nor may read it unheard of."""
        now = yield Sleep(0)
        # No broker shows a classic member's session timeout.
        give_up_at, expired_at = now + LET_GO_WITHIN_S, now + SESSION_TIMEOUT_S
        while self._unreleased or (now < expired_at and (yield from _are_missing(former))):
            if self._unreleased and now > give_up_at:
                raise NotCaptured(
                    "members do not revoke "
                    + ", ".join(f"{topic}:{number}" for topic, number in sorted(self._unreleased))
                )
            now = yield Sleep(BEAT_S)
            yield from self.keep()


def _are_missing(former: FormerOwners) -> RecipeGenerator[bool]:
    group: ClassicFacts = yield DescribeClassic()
    # In a rebalance members are listed that may never join it.
    return group.state != GroupState.STABLE or former.are_missing(group.members)


def _places(pairs: Iterable[tuple[str, int]]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, number) for topic, number in pairs)
