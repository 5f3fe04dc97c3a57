"""
Hold partitions of a classic group: a sentinel leads it and leaves them unassigned.

The other members get assignments in exactly the bytes of their own protocol. The sentinel assigns
itself a note that names the paused partitions; every group description shows it. When the sentinel
leaves, or sends no heartbeat for its session timeout, a member of the application leads again. If a
sentinel of another operator leads already, a second one follows it: see `classic_assignment`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any, Self

from toolkit.errors import HoldLost, NotCaptured
from toolkit.kafka_io.groups.describe_groups import classic_member
from toolkit.kafka_io.groups.hold_notes import read_note
from toolkit.kafka_io.groups.subscriptions import user_data_from_bytes
from toolkit.kafka_io.membership.classic import (
    ClassicFacts,
    ClassicHeartbeat,
    DescribeClassic,
    Join,
    JoinResult,
)
from toolkit.kafka_io.membership.protocol_bytes import protocol_named, read_subscription
from toolkit.live.choose_capture import capture_lead, count_partitions, topics_of
from toolkit.live.classic_assignment import (
    Assignments,
    ClassicAssignment,
    as_partitions,
    is_sentinel,
)
from toolkit.live.classic_capture import check_capturable
from toolkit.live.classic_member import OwnIds, SentinelMember
from toolkit.live.former_owners import FormerOwners
from toolkit.live.leader_hold import BEAT_S, LeaderHold
from toolkit.live.recipe_steps import AGAIN, RecipeChannel
from toolkit.live.rival_captures import (
    LOOK_TO_JOIN_S,
    AnotherCapture,
    AnotherHold,
    GaveUp,
    holders,
    refuse_another_hold,
    refuse_what_others_hold,
    until_at_rest,
)
from toolkit.model import CaptureMode, GroupState, HoldNote, TopicPartition
from toolkit.model.groups import SESSION_TIMEOUT_S
from toolkit.planning.selection.member_names import in_short

CONTEST_TRIES = 3
SECOND_STEP_S = 8.0  # two heartbeat intervals by default, and a margin
LET_GO_S = 3.0  # members that revoke rejoin within this, unless they are slow
COUNTS_EVERY_S = 5.0  # interval of looking for added partitions
LET_GO_WITHIN_S = 60.0
PAUSE_FROM_THERE = "pause these partitions from there, or resume that pause first"


class ClassicHold(LeaderHold):
    """Partitions of a classic group that are not assigned, because a sentinel leads the group."""

    def __init__(
        self,
        *,
        note: HoldNote,
        session_timeout_s: float = SESSION_TIMEOUT_S,
        prefer: CaptureMode = CaptureMode.LOSSLESS,
    ) -> None:
        """
        Hold nothing yet; a hold outlives its process for `session_timeout_s`.

        `prefer` has an effect on cooperative groups only.
        """
        super().__init__(note=note, session_timeout_s=session_timeout_s)
        self.prefer = prefer
        self._member: SentinelMember | None = None
        self._assignment = ClassicAssignment()
        self._follows = False  # another sentinel leads, as far as is known
        self._granted: frozenset[TopicPartition] = frozenset()  # by the leading sentinel
        self._count_at = 0.0
        self._due_at = math.inf  # when we rejoin if no member has by then

    def capture(self, channel: RecipeChannel, partitions: frozenset[TopicPartition]) -> None:
        """Hold more partitions, all or none; returns when no member reads one of them any more."""
        if partitions <= self.held:
            return
        before = self.held
        own = OwnIds(channel)
        try:
            joined = None
            if self._member is None:
                former, joined = self._become_member(own, partitions)
            else:
                refuse_what_others_hold(channel, partitions, self._joined().member_id)
                former = self._former_owners(channel.ask(DescribeClassic()), partitions - before)
            self.held = before | partitions
            self._rebalance(channel, joined)
            self._check_granted(channel)
            self._until_released(channel, former)
        except BaseException as exc:
            self.held = before if self._member else frozenset()
            self._published = ""
            is_new = bool(own.ids)
            if is_new:
                self._member = None
                own.leave_after(exc)
            if is_new and isinstance(exc, HoldLost):
                raise NotCaptured(f"capture failed: {exc.problem}", hint=AGAIN) from exc
            raise

    def keep(self, channel: RecipeChannel) -> None:
        """Stay a member; also raises HoldLost if the leader no longer holds our partitions."""
        super().keep(channel)
        if self._follows and self.held - self._granted:
            self._leave(channel, "the hold that leads the group does not hold it any more")

    def release(self, channel: RecipeChannel, some: frozenset[TopicPartition]) -> None:
        """Release partitions; with the last of them our member leaves the group."""
        self._keep_only(channel, self.held - some)

    def state(self) -> dict[str, Any]:
        member = self._joined()
        return {
            "member_id": member.member_id,
            "generation": member.generation,
            "protocol": member.protocol.name,
            "topics": sorted(member.topics),
            "session_timeout_s": self.survives_s,
            "held": sorted(self.held),
            "follows": self._follows,
            "published": self._published,
            **self._assignment.state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], *, note: HoldNote) -> Self:
        hold = cls(note=note, session_timeout_s=state["session_timeout_s"])
        hold._member = SentinelMember(
            protocol_named(state["protocol"]),
            round(hold.survives_s * 1000),
            state["member_id"],
            state["generation"],
            frozenset(state["topics"]),
        )
        hold.held, hold._published = as_partitions(state["held"]), state.get("published", "")
        hold._follows, hold._granted = state.get("follows", False), hold.held
        hold._assignment = ClassicAssignment.from_state(state)
        return hold

    # Joining: as the leader, or as a follower of a sentinel that leads.

    def _become_member(
        self, own: OwnIds, partitions: frozenset[TopicPartition]
    ) -> tuple[FormerOwners, JoinResult | None]:
        """Become the leader, or follow a sentinel that leads and holds other partitions."""
        for left in reversed(range(CONTEST_TRIES)):
            try:
                return self._contend(own, partitions)
            except GaveUp:  # if both joined late, both gave up
                if not left:
                    raise
                own.channel.sleep(random.uniform(0, LOOK_TO_JOIN_S))  # noqa: S311 - no secret
            except AnotherHold as exc:
                if partitions & exc.paused:
                    raise
                break
        group = self._begin_to_follow(own)
        return self._former_owners(group, partitions), None

    def _contend(
        self, own: OwnIds, partitions: frozenset[TopicPartition]
    ) -> tuple[FormerOwners, JoinResult]:
        try:
            return self._become_leader(own, partitions)
        except AnotherCapture:
            own.leave(own.ids)
            refuse_another_hold(own.channel)

    def _become_leader(
        self, own: OwnIds, partitions: frozenset[TopicPartition]
    ) -> tuple[FormerOwners, JoinResult]:
        quietly = self.prefer is CaptureMode.QUIET
        captured = capture_lead(own, self.survives_s, quietly=quietly)
        self._member, self._follows = captured.member, False
        self._assignment = ClassicAssignment(counts=captured.counts)
        self._assignment.read(captured.group, "")
        self._assignment.compare(captured.group, captured.counts, self.held)
        return self._former_owners(captured.group, partitions), captured.joined

    def _begin_to_follow(self, own: OwnIds) -> ClassicFacts:
        """Get a member id for a follower, and return the group once it does not rebalance."""
        group = until_at_rest(own.channel)
        check_capturable(group)
        protocol = protocol_named(group.protocol)
        member = SentinelMember(protocol, round(self.survives_s * 1000))
        member.member_id = own.draw_id(SentinelMember(protocol), len(group.members) + 1)
        self._member, self._follows = member, True
        counts = count_partitions(own.channel, topics_of(group), {})
        self._assignment.read(group, "")
        self._assignment.compare(group, counts, self.held)
        return group

    def _former_owners(
        self, group: ClassicFacts, partitions: frozenset[TopicPartition]
    ) -> FormerOwners:
        former = FormerOwners()
        former.add(group.members, self._assignment.owners(partitions))
        return former

    def _check_granted(self, channel: RecipeChannel) -> None:
        """Raise NotCaptured unless the leader holds everything and this sentinel leads next."""
        if not self._follows:
            return
        mine = self._joined().member_id
        group = channel.ask(DescribeClassic())
        if missing := self.held - self._granted:
            refuse_what_others_hold(channel, missing, mine)
            why = "its keeper did not pause these partitions as well"
        elif not leads_next(group, mine):
            why = "a consumer would lead the group next, and resume these partitions"
        else:
            return
        other = AnotherHold(classic_member(one) for one in holders(group) if one.member_id != mine)
        raise NotCaptured(f"{other.problem}, and {why}", hint=PAUSE_FROM_THERE)

    def _until_released(self, channel: RecipeChannel, former: FormerOwners) -> None:
        """Wait until no member claims a held partition, or may still read one unnoticed."""
        now = channel.now()
        # Brokers do not show the session timeout of a classic member.
        give_up_at, expired_at = now + LET_GO_WITHIN_S, now + SESSION_TIMEOUT_S
        while self._unreleased or (now < expired_at and _are_missing(channel, former)):
            if self._unreleased and now > give_up_at:
                raise NotCaptured(f"members do not revoke {in_short(self._unreleased)}")
            now = channel.sleep(BEAT_S)
            self.keep(channel)

    # During each rebalance: lead, or follow.

    def _join(self) -> Join:
        member = self._joined()
        return member.wish(self._note_text()) if self._follows else member.join()

    def _heartbeat(self) -> ClassicHeartbeat:
        return self._joined().heartbeat()

    def _is_due(self, channel: RecipeChannel) -> bool:
        """Return whether to rejoin: partitions were withheld, or a topic has grown."""
        if self._follows:  # the leader does both
            return False
        now = channel.now()
        grown = False
        if now >= self._count_at:
            self._count_at = now + COUNTS_EVERY_S
            grown = self._assignment.has_grown(channel)
        return grown or now >= self._due_at

    def _lead(self, channel: RecipeChannel, joined: JoinResult) -> int:
        if not joined.leads:
            return self._follow(channel, joined)
        self._follows = False
        member = self._joined()
        member.generation = joined.generation
        member.protocol = protocol_named(joined.protocol)  # the group may have changed it
        assigned = self._assignment.assign(channel, joined, member, self.held, self._note_text())
        self._unreleased = assigned.unreleased
        now = channel.now()
        self._count_at, self._due_at = now + COUNTS_EVERY_S, now + _patience_s(assigned)
        return channel.ask(member.sync(assigned.assignments)).error

    def _follow(self, channel: RecipeChannel, joined: JoinResult) -> int:
        """Sync, or leave if the leader is no sentinel; return the error code of the broker."""
        if not (
            self._follows and is_sentinel(joined.leader)
        ):  # a consumer may assign it partitions
            self._leave(channel, "another member is the group leader, and assigns all partitions")
        member = self._joined()
        member.generation = joined.generation
        member.protocol = protocol_named(joined.protocol)
        synced = channel.ask(member.sync({}))
        if synced.error:
            return synced.error
        self._granted = frozenset(read_note(user_data_from_bytes(synced.assignment)).paused)
        group = channel.ask(DescribeClassic())
        is_stable = group.state == GroupState.STABLE  # or the next rebalance has begun
        if is_stable:
            self._assignment.read(group, member.member_id)
        if member.protocol.cooperative:
            self._unreleased = self.held & _owned(group) if is_stable else self.held
        return 0

    def _joined(self) -> SentinelMember:
        if self._member is None:
            raise HoldLost("nothing is paused any more")
        return self._member

    def _forget_member(self) -> None:
        self._member = None
        self.held = frozenset()


def _patience_s(assigned: Assignments) -> float:
    """
    Return after how many seconds we rejoin if no member does.

    A member that has to revoke partitions rejoins by itself, unless it was removed before:
    librdkafka then claims partitions that it has already revoked, and so has nothing to revoke.
    """
    if assigned.unreleased:
        return LET_GO_S
    return SECOND_STEP_S if assigned.is_partial else math.inf


def leads_next(group: ClassicFacts, member_id: str) -> bool:
    """Return whether all members before this one in the coordinator's table are sentinels."""
    listed = [one.member_id for one in group.members]  # in the order of that table
    return all(map(is_sentinel, listed[: listed.index(member_id)]))


def _are_missing(channel: RecipeChannel, former: FormerOwners) -> bool:
    group = channel.ask(DescribeClassic())
    # During a rebalance members are listed that may never rejoin.
    return group.state != GroupState.STABLE or former.are_missing(group.members)


def _owned(group: ClassicFacts) -> frozenset[TopicPartition]:
    subscribed = (read_subscription(one.subscription) for one in group.members)
    return frozenset().union(*(one.owned for one in subscribed if one))
