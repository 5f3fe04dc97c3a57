"""
Stop a classic group for as long as it takes to move its committed offsets.

Its members wait for what our member, which leads, assigns to them. They own nothing then, and what
they commit is refused; with what they are assigned they fetch the committed offsets.
"""

from __future__ import annotations

from toolkit.errors import HoldLost
from toolkit.kafka_io.membership.classic import JoinResult, Leave
from toolkit.live.choose_capture import capture_stopped
from toolkit.live.classic_hold import ClassicHold
from toolkit.live.recipe_steps import RecipeGenerator
from toolkit.model import HoldNote
from toolkit.planning.holds.hold_costs import STOP_SURVIVES_S


class StoppedGroup(ClassicHold):
    """A group whose members wait; nothing of it is held."""

    def __init__(self) -> None:
        """Stop nothing yet."""
        super().__init__(note=HoldNote(), session_timeout_s=STOP_SURVIVES_S)
        self._stopped: JoinResult | None = None

    def stop(self) -> RecipeGenerator[None]:
        """Become the leader and have all wait; raises NotCaptured, then they read on."""
        ours: list[str] = []
        try:
            captured = yield from capture_stopped(self.survives_s, ours)
        except BaseException as exc:
            if ours and not isinstance(exc, GeneratorExit):
                yield Leave(tuple(ours))
            raise
        self._begin_to_lead(captured)
        self._stopped = captured.joined

    def go_on(self) -> RecipeGenerator[None]:
        """Assign everything and leave; raises HoldLost if another member leads by now."""
        member_id = self._joined().member_id
        try:
            yield from self._rebalance(self._stopped)
        except HoldLost:
            yield Leave((member_id,))
            raise
        yield from self.give_up()

    def give_up(self) -> RecipeGenerator[None]:
        """Leave, if not yet: the group rebalances, and its own leader assigns."""
        if self._member:
            yield from self.release(frozenset())
