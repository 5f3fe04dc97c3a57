"""
Hold partitions of a KIP-848 group back from its members.

A coordinator waits for a member that still reports a partition which is meant for another member,
and assigns it to nobody until then. So each partition is captured by a sentinel that owns only this
one, then drops its subscription and keeps reporting the partition. A member reports all of its
partitions or none; with one sentinel for each, partitions are resumed one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self
from uuid import UUID

from toolkit.errors import BrokerRefused, ClusterUnreachable, HoldLost, NotCaptured, ToolkitError
from toolkit.kafka_io.client.error_codes import MEMBER_GONE
from toolkit.kafka_io.groups.hold_notes import write_note
from toolkit.kafka_io.membership.consumer import DescribeConsumer
from toolkit.kafka_io.membership.group_config import SESSION_TIMEOUT_MS, FetchGroupConfig
from toolkit.kafka_io.membership.topics_and_commits import FetchTopics
from toolkit.live.consumer_captures import capture_fast, capture_lossless, capture_quiet
from toolkit.live.former_owners import FormerOwners
from toolkit.live.group_view import LOOK_EVERY_S, GroupView, late_members, observe
from toolkit.live.member_pool import Holder, MemberPool, is_of_run, leave, together
from toolkit.live.recipe_steps import AGAIN, RecipeChannel
from toolkit.live.rival_captures import AnotherCapture
from toolkit.model import CaptureMode, HoldNote, TopicPartition
from toolkit.model.groups import SESSION_TIMEOUT_S
from toolkit.planning.holds.recipes import WAITS_FOR
from toolkit.planning.selection.member_names import in_short

# Two heartbeats of the owners, and a margin. A busy owner revokes nothing, and all other partitions
# of the topic stand still meanwhile: it is evicted then.
PATIENCE_S = WAITS_FOR.total_seconds()
GIVES_WAY = 3  # how often a capture restarts after another one
BEAT_EVERY_S = 2.0  # a resume by another operator is noticed this soon
TOPICS_EVERY_S = 5.0  # interval of checking whether topics were deleted
RECIPES = {
    CaptureMode.LOSSLESS: capture_lossless,
    CaptureMode.QUIET: capture_quiet,
    CaptureMode.FAST: capture_fast,
}


class ConsumerHold:
    """
    Partitions of one KIP-848 group that are withheld from its members.

    `note` is shown by the broker, a new one after the next `keep`. Without a keeper the hold lasts
    for `survives_s`, where the broker shows the session timeout, and for 24.8 days at most.
    """

    beat_every_s = BEAT_EVERY_S

    def __init__(
        self,
        prefer: CaptureMode = CaptureMode.LOSSLESS,
        note: HoldNote = HoldNote(),  # noqa: B008  # it is frozen
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Members that give up no partition for `patience_s` are evicted."""
        self.prefer = prefer
        self.note = note
        self.survives_s: float | None = None
        self._patience_s = patience_s
        self._holders: dict[TopicPartition, Holder] = {}
        self._published = ""
        self._topics_at = 0.0  # time of the next check of the topics
        # When members that revoke late after the capture are looked for, and when evicted.
        self._late_at = self._evict_at = math.inf
        self._late: dict[str, frozenset[TopicPartition]] = {}
        self._is_taken_over = False

    @property
    def held(self) -> frozenset[TopicPartition]:
        return frozenset(self._holders)

    def capture(self, channel: RecipeChannel, partitions: frozenset[TopicPartition]) -> None:
        """
        Hold more partitions, all or none.

        Raises NotCaptured; then, and after an interruption, every sentinel that joined for it has
        left and the group reads as before. Raises HoldLost, like `keep`, if the topic of a held
        partition was deleted.
        """
        self._leave_deleted_topics(channel)
        new = frozenset(partitions) - self.held
        if not new:
            return
        held = list(self._holders.values())
        pool = MemberPool(channel, holders=held, note=self.note)
        try:
            former, holders = self._capture(new, pool)
            self._holders |= {holder.place: holder for holder in holders}
            self._evict_at = channel.now() + self._patience_s
            self._late_at = self._evict_at - self._patience_s / 2
            self._until_known(channel, former)
        except BaseException as exc:
            self._holders = {p: one for p, one in self._holders.items() if p not in new}
            pool.leave_and_restore()
            if pool.cleanup_problems and isinstance(exc, ToolkitError):
                raise NotCaptured(f"{exc.problem}; {pool.cleanup_problems}", hint=exc.hint) from exc
            if isinstance(exc, HoldLost):
                raise NotCaptured(f"capture failed: {exc.problem}", hint=AGAIN) from exc
            raise

    def _capture(
        self, partitions: frozenset[TopicPartition], pool: MemberPool
    ) -> tuple[FormerOwners, list[Holder]]:
        self.survives_s = _session_s(pool.channel)
        text = self._note_text()
        former = FormerOwners()
        # Other members may interfere with a recipe; capture_lossless succeeds in the end.
        recipes = [capture_lossless, RECIPES[self.prefer]]
        while recipes:
            recipe = recipes.pop()
            view = _observe(partitions, pool)
            former.add(view.readers, {one.member_id for one in view.owners(partitions)})
            try:
                holders = recipe(view, partitions, pool, patience_s=self._patience_s)
            except AnotherCapture:
                if pool.gave_way == GIVES_WAY:
                    raise
                # Once the group shows what the other capture holds, the rest can be captured.
                pool.gave_way, holders = pool.gave_way + 1, []
                recipes.append(recipe)
            if holders and pool.keep_holders(holders, assignor=view.assignor, rack_id=text):
                self._published = self._published or text
                return former, holders
            pool.leave()
        raise NotCaptured("other members interfered", hint=AGAIN)

    def _until_known(self, channel: RecipeChannel, former: FormerOwners) -> None:
        """Hold until all evicted members have rejoined, or their sessions have expired."""
        now = channel.now()
        expired_at = now + (self.survives_s or SESSION_TIMEOUT_S)
        beat_at = now + self.beat_every_s
        while now < expired_at:
            if not former.are_missing(channel.ask(DescribeConsumer()).members):
                return
            now = channel.sleep(LOOK_EVERY_S)
            if now >= beat_at:
                self.keep(channel)
                beat_at = now + self.beat_every_s

    def keep(self, channel: RecipeChannel) -> None:
        """
        Send one heartbeat of every sentinel.

        Raises HoldLost for partitions whose sentinels were removed, because an operator resumed
        them or no heartbeat arrived for a session, and for those of a deleted topic. They are not
        captured again. The others are still held.
        """
        holders = list(self._holders.values())
        text = self._note_text()
        new_text = text if text != self._published else None
        answers = together(channel, [holder.heartbeat(new_text) for holder in holders])
        lost: dict[TopicPartition, str] = {}
        refused = ""
        for holder, answer in zip(holders, answers, strict=True):
            if answer.error in MEMBER_GONE or holder.has_extra_partitions(answer):
                del self._holders[holder.place]
                lost[holder.place] = holder.member_id
            refused = refused or (answer.why if holder.place in self._holders else "")
            holder.update(answer)
        if lost:
            with suppress(
                ToolkitError
            ):  # the group would wait for a sentinel that is only out of step
                together(channel, [leave(member_id) for member_id in lost.values()])
            raise _lost(lost)
        if refused:
            raise BrokerRefused(f"holding {in_short(self._holders)}: {refused}")
        self._published = text
        if self._is_taken_over:
            self._remove_others_of_run(channel)
            self._is_taken_over = False
        if channel.now() >= self._topics_at:
            self._leave_deleted_topics(channel)
        if channel.now() >= self._evict_at:
            self._evict_at = math.inf
            self._evict_late(channel)
        elif channel.now() >= self._late_at:
            self._late_at = math.inf
            self._late = late_members(channel.ask(DescribeConsumer()))

    def _remove_others_of_run(self, channel: RecipeChannel) -> None:
        """
        Remove sentinels that a keeper left which was killed while it captured more partitions.

        Each of them owns a partition that nobody reads until its session expires.
        """
        kept = {holder.member_id for holder in self._holders.values()}
        listed = {one.member_id for one in channel.ask(DescribeConsumer()).members}
        together(channel, [leave(one) for one in listed - kept if is_of_run(one, self.note.run_id)])

    def _leave_deleted_topics(self, channel: RecipeChannel) -> None:
        """
        Check whether topics were deleted: their sentinels hold nothing any more.

        Brokers do not report that: heartbeats succeed, and a new topic of that name is read.
        """
        self._topics_at = channel.now() + TOPICS_EVERY_S
        names = tuple(sorted({place.topic for place in self._holders}))
        if not names:
            return
        try:
            found = channel.ask(FetchTopics(names))
        except (BrokerRefused, ClusterUnreachable):
            return  # the heartbeats have arrived
        ids = {name: topic.topic_id for name, topic in found.topics.items()}
        gone = {
            place: holder.member_id
            for place, holder in self._holders.items()
            if place.topic not in found.unread and ids.get(place.topic) != holder.topic_id
        }
        if gone:
            self._holders = {p: one for p, one in self._holders.items() if p not in gone}
            with suppress(ToolkitError):
                together(channel, [leave(member_id) for member_id in gone.values()])
            raise HoldLost(
                f"{in_short(gone)} is no longer held: the topic was deleted, and perhaps created "
                "again"
            )

    def _evict_late(self, channel: RecipeChannel) -> None:
        """
        Evict members that are busy since the capture, for which other members have to wait.

        When the other sentinels left, partitions were reassigned, also those of a busy member. It
        is busy if it still owes the same as half the time before; others are just rebalancing.
        """
        late = late_members(channel.ask(DescribeConsumer()))
        busy = [name for name, places in late.items() if places & self._late.get(name, frozenset())]
        together(channel, [leave(member_id) for member_id in busy])

    def release(self, channel: RecipeChannel, some: frozenset[TopicPartition]) -> None:
        """
        Release partitions; members get them with their next heartbeat.

        Then raises HoldLost for partitions whose sentinels were removed before, or BrokerRefused
        for those that a broker does not release, which are still held.
        """
        places = sorted(frozenset(some) & self.held)
        answers = together(channel, [leave(self._holders[place].member_id) for place in places])
        errors = {place: one for place, one in zip(places, answers, strict=True) if one.error}
        lost = [place for place, one in errors.items() if one.error in MEMBER_GONE]
        refused = [place for place in errors if place not in lost]
        self._holders = {
            place: one
            for place, one in self._holders.items()
            if place not in places or place in refused
        }
        if refused:
            raise BrokerRefused(f"releasing {in_short(refused)}: {errors[refused[0]].why}")
        if lost:
            raise _lost(lost)

    def state(self) -> dict[str, Any]:
        """Return the state from which another process can continue the hold, for JSON."""
        return {
            "prefer": self.prefer.value,
            "survives_s": self.survives_s,
            "holders": [
                {
                    "topic": place.topic,
                    "partition": place.partition,
                    "topic_id": str(holder.topic_id),
                    "member_id": holder.member_id,
                    "epoch": holder.epoch,
                }
                for place, holder in sorted(self._holders.items())
            ],
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], note: HoldNote = HoldNote()) -> Self:  # noqa: B008
        """Continue the hold of another process; both may keep it at the same time."""
        hold = cls(CaptureMode(state["prefer"]), note)
        hold._is_taken_over = True
        hold.survives_s = state["survives_s"]
        for entry in state["holders"]:
            place = TopicPartition(entry["topic"], entry["partition"])
            hold._holders[place] = Holder(
                entry["member_id"], entry["epoch"], place, UUID(entry["topic_id"])
            )
        return hold

    def _note_text(self) -> str:
        return write_note(replace(self.note, survives_s=self.survives_s))


def _observe(partitions: frozenset[TopicPartition], pool: MemberPool) -> GroupView:
    pool.heartbeat(())
    view = observe(pool.channel, partitions, frozenset(one.member_id for one in pool.holders))
    pool.heartbeat(())
    return view


def _session_s(channel: RecipeChannel) -> float | None:
    try:
        found = channel.ask(FetchGroupConfig((SESSION_TIMEOUT_MS,)))
    except BrokerRefused:  # an older broker without group settings
        return None
    value = found.values.get(SESSION_TIMEOUT_MS, "")
    return int(value) / 1000 if value.isdecimal() else None


def _lost(places: Iterable[TopicPartition]) -> HoldLost:
    return HoldLost(
        f"{in_short(places)} is no longer held: either it was resumed, or the keeper missed its "
        "session timeout"
    )
