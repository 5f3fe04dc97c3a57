"""
Notice that a join will never be answered.

Of two joins of one member a coordinator answers the one that arrives last. After a lost connection,
or when another keeper continues for a killed one, that may be the older one, whose sender is gone.
A coordinator answers every join when the rebalance ends. So a group that is not in one any more,
in two looks, has no answer for a join that was sent before the first of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from toolkit.errors import ClusterUnreachable, ToolkitError
from toolkit.kafka_io.membership.classic import ClassicFacts

LOOK_EVERY_S = 2.0
OVER = frozenset({"CompletingRebalance", "Stable"})


class UnansweredJoin:
    """Looks at the group while the answer to a join is waited for; `describe` reads the group."""

    def __init__(self, describe: Callable[[], ClassicFacts]) -> None:
        """Begin when the join is sent."""
        self._describe = describe
        self._look_at = time.monotonic() + LOOK_EVERY_S
        self._was_over = False

    def look(self) -> None:
        """Raise ClusterUnreachable if the join is to be sent again; what is unknown is not over."""
        if time.monotonic() < self._look_at:
            return
        is_over = False
        with suppress(ToolkitError):
            is_over = self._describe().state in OVER
        if is_over and self._was_over:
            raise ClusterUnreachable("the rebalance has ended, and a join was not answered")
        self._was_over = is_over
        self._look_at = time.monotonic() + LOOK_EVERY_S
