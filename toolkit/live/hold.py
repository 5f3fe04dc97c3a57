"""Common interface of holds, and the choice of the hold type for a group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from toolkit.live.application_hold import ApplicationHold
from toolkit.live.classic_hold import ClassicHold
from toolkit.live.consumer_hold import ConsumerHold
from toolkit.live.recipe_steps import RecipeGenerator
from toolkit.live.streams_hold import StreamsHold
from toolkit.model import CaptureMode, GroupType, HoldNote, TopicPartition
from toolkit.model.groups import SESSION_TIMEOUT_S, STREAMS_PROTOCOL


class Hold(Protocol):
    """
    Partitions of one group that its members do not get.

    `capture`, `keep` and `release` are recipes. A capture that fails or is interrupted leaves what
    was held before; `keep` raises HoldLost where the broker no longer knows our members.
    """

    note: HoldNote
    beat_every_s: float

    @property
    def held(self) -> frozenset[TopicPartition]:
        """The partitions that are held."""

    @property
    def survives_s(self) -> float | None:
        """How long they are when nobody keeps the hold; None where that is not known."""

    def capture(self, wanted: frozenset[TopicPartition]) -> RecipeGenerator[None]:
        """Hold these too: all of them or none."""

    def keep(self) -> RecipeGenerator[None]:
        """Say to the broker that the hold goes on, and do what it asks for."""

    def release(self, some: frozenset[TopicPartition]) -> RecipeGenerator[None]:
        """Give some or all of them back."""

    def state(self) -> dict[str, Any]:
        """Return what another process needs to go on."""


def new_hold(type_: GroupType, assignor: str, *, prefer: CaptureMode, note: HoldNote) -> Hold:
    """Return a hold, of nothing yet, for a kind of group."""
    if type_ is GroupType.CONSUMER:
        return ConsumerHold(prefer=prefer, note=note)
    if type_ is GroupType.STREAMS:
        return ApplicationHold(note=note)
    note = replace(note, survives_s=SESSION_TIMEOUT_S)
    if assignor == STREAMS_PROTOCOL:
        return StreamsHold(note=note)
    return ClassicHold(note=note, prefer=prefer)


def taken_over(
    type_: GroupType, assignor: str, state: Mapping[str, Any], *, note: HoldNote
) -> Hold:
    """Return a hold that another process began."""
    if type_ is GroupType.CONSUMER:
        return ConsumerHold.from_state(dict(state), note=note)
    if type_ is GroupType.STREAMS:
        return ApplicationHold.from_state(state, note=note)
    kind = StreamsHold if assignor == STREAMS_PROTOCOL else ClassicHold
    return kind.from_state(state, note=note)
