"""Hold partitions of a classic group by a sentinel that leads it; Streams or not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import replace
from typing import NoReturn

from toolkit.errors import BrokerRefused, HoldLost, ToolkitError
from toolkit.kafka_io.client.error_codes import ASK_AGAIN, ErrorCode, reason
from toolkit.kafka_io.groups.hold_notes import write_note
from toolkit.kafka_io.membership.classic import ClassicHeartbeat, Join, JoinResult, Leave
from toolkit.live.recipe_steps import RecipeChannel
from toolkit.model import HoldNote, TopicPartition
from toolkit.model.groups import SESSION_TIMEOUT_S

REBALANCE_TIMEOUT_MS = 60_000  # how long a rebalance waits for a sentinel that hangs
BEAT_S = 0.1  # during a capture
COME_AGAIN = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION})
FORGOTTEN = (
    "hold lost: its member is no longer in the group. Either the partitions were resumed, or the "
    "keeper missed its session timeout"
)


class LeaderHold(ABC):
    """
    Partitions of a classic group that are not assigned, because a sentinel leads the group.

    A subclass becomes the leader, and assigns partitions in each rebalance.
    """

    beat_every_s = 1.0

    def __init__(self, *, note: HoldNote, session_timeout_s: float = SESSION_TIMEOUT_S) -> None:
        """Hold nothing yet; a hold outlives its process for `session_timeout_s`."""
        self.note = note
        self.survives_s = session_timeout_s
        self.held: frozenset[TopicPartition] = frozenset()
        self._unreleased: frozenset[TopicPartition] = (
            frozenset()
        )  # held, but still owned by a member
        self._published = ""  # the note of the last rebalance; "" if that failed

    def keep(self, channel: RecipeChannel) -> None:
        """Stay the leader; assign partitions again when members come and go, or topics grow."""
        answer = channel.ask(self._heartbeat())
        if answer.error == ErrorCode.UNKNOWN_MEMBER_ID:
            raise self._lost(FORGOTTEN)
        if answer.error not in {ErrorCode.NONE, *COME_AGAIN}:
            raise BrokerRefused(
                f"the coordinator rejected the heartbeat of a hold: {reason(answer.error, 'Read')}"
            )
        is_published = self._published == self._note_text()
        if not is_published or answer.error in COME_AGAIN or self._is_due(channel):
            self._rebalance(channel)

    def _rebalance(self, channel: RecipeChannel, joined: JoinResult | None = None) -> None:
        """Join, unless `joined`, and assign partitions until no rebalance follows."""
        code: int = ErrorCode.REBALANCE_IN_PROGRESS
        while code in COME_AGAIN:
            answer = joined or channel.ask(self._join())
            joined = None
            code = answer.error
            if code == ErrorCode.NONE:
                code = self._lead(channel, answer)
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            raise self._lost(FORGOTTEN)
        if code in ASK_AGAIN:  # the coordinator moves and is not ready yet
            self._published = ""
            raise BrokerRefused(f"a rebalance of a hold goes on later: {reason(code, 'Read')}")
        if code != ErrorCode.NONE:
            self._leave(channel, f"no longer group leader: {reason(code, 'Read')}")
        self._published = self._note_text()

    def _keep_only(self, channel: RecipeChannel, left: frozenset[TopicPartition]) -> None:
        """Release all other partitions; if none is left, our member leaves the group."""
        heartbeat = self._heartbeat()
        if left:
            self.held = left  # if the request fails, `keep` repeats it
            self._rebalance(channel)
            return
        answer = channel.ask(Leave((heartbeat.member_id,)))
        code = answer.error_of(heartbeat.member_id)
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            raise self._lost(FORGOTTEN)
        if code != ErrorCode.NONE:  # then the hold is unchanged
            raise BrokerRefused(f"releasing the hold: {reason(code, 'Read')}")
        self._forget_member()

    def _note_text(self) -> str:
        return write_note(replace(self.note, survives_s=self.survives_s), self.held)

    def _lost(self, why: str) -> HoldLost:
        """Forget our member, and return the error to raise."""
        self._forget_member()
        return HoldLost(why)

    def _leave(self, channel: RecipeChannel, why: str) -> NoReturn:
        """Leave, so that members do not wait for our session to end; raise HoldLost."""
        member_id = self._heartbeat().member_id
        self._forget_member()
        with suppress(ToolkitError):
            channel.ask(Leave((member_id,)))
        raise HoldLost(why)

    @abstractmethod
    def _heartbeat(self) -> ClassicHeartbeat:
        """Return the heartbeat of our member; raises HoldLost if there is none."""

    @abstractmethod
    def _join(self) -> Join:
        """Return the request with which our member rejoins."""

    @abstractmethod
    def _lead(self, channel: RecipeChannel, joined: JoinResult) -> int:
        """Assign partitions; return the error code of the broker."""

    @abstractmethod
    def _is_due(self, channel: RecipeChannel) -> bool:
        """Return whether a rebalance is due that no member has started."""

    @abstractmethod
    def _forget_member(self) -> None:
        """Forget our member, which has left the group, so nothing is held."""
