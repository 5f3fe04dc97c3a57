"""
Carry out recipes: functions that send requests to a group's coordinator over a channel.

A recipe reads from top to bottom, can be tested without a broker over a scripted channel, and can
be interrupted at every step; then it cleans up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from toolkit.kafka_io.membership.channel import PendingAnswer
from toolkit.kafka_io.membership.request import AnswerT, MemberRequest, MemberResponse
from toolkit.model.plurals import counted

AGAIN = "run the command again"
LEAVE_TRIES = 2  # the operator may press Ctrl-C again while members leave
OtherT = TypeVar("OtherT", bound=MemberResponse)


class RecipeChannel(Protocol):
    """Carries out the steps of recipes: a `GroupChannel`, or a wrapper of one."""

    def ask(self, request: MemberRequest[AnswerT]) -> AnswerT:
        """Send a request and return its answer."""
        (answer,) = self.ask_together([request])
        return answer

    def ask_together(self, requests: Sequence[MemberRequest[AnswerT]]) -> tuple[AnswerT, ...]:
        """Send requests and return their answers in order; without requests, send nothing."""

    def connect(self, count: int) -> None:
        """Have `count` connections over which no join waits, so that none is opened later."""

    def send_ahead(
        self, request: MemberRequest[AnswerT], *, after: PendingAnswer[Any] | None = None
    ) -> PendingAnswer[AnswerT]:
        """
        Send a request and return its pending answer.

        It uses a connection over which no join waits, or that of an earlier request: a broker
        handles it `after` it has answered that one.
        """

    def wait_for(self, pending: PendingAnswer[AnswerT]) -> AnswerT:
        """Wait for the answer to a request, and return it."""

    def is_answered(self, pending: PendingAnswer[Any]) -> bool:
        """Return whether the answer to a request has arrived."""

    def sleep(self, seconds: float) -> float:
        """Let time pass, and return `now`."""

    def now(self) -> float:
        """Return a monotonic time in seconds that includes time in suspend."""


class CheckedChannel(RecipeChannel):
    """
    The channel of one recipe, which calls `check` before every step.

    What `check` or a step raises is raised inside the recipe. From then on the recipe cleans up,
    without further checks.
    """

    def __init__(self, channel: RecipeChannel, check: Callable[[], None]) -> None:
        """Carry out the steps over another channel."""
        self._channel = channel
        self._check = check
        self._is_orderly = True

    def ask_together(self, requests: Sequence[MemberRequest[AnswerT]]) -> tuple[AnswerT, ...]:
        with self._step():
            return self._channel.ask_together(requests)

    def connect(self, count: int) -> None:
        with self._step():
            self._channel.connect(count)

    def send_ahead(
        self, request: MemberRequest[AnswerT], *, after: PendingAnswer[Any] | None = None
    ) -> PendingAnswer[AnswerT]:
        with self._step():
            return self._channel.send_ahead(request, after=after)

    def wait_for(self, pending: PendingAnswer[AnswerT]) -> AnswerT:
        with self._step():
            return self._channel.wait_for(pending)

    def is_answered(self, pending: PendingAnswer[Any]) -> bool:
        with self._step():
            return self._channel.is_answered(pending)

    def sleep(self, seconds: float) -> float:
        with self._step():
            return self._channel.sleep(seconds)

    def now(self) -> float:
        return self._channel.now()

    @contextmanager
    def _step(self) -> Iterator[None]:
        try:
            if self._is_orderly:
                self._check()
            yield
        except BaseException:
            self._is_orderly = False
            raise


def may_stay(count: int) -> str:
    """Return the message about offsetbook members that could not leave a group."""
    return f"{counted(count, 'offsetbook member')} may stay in the group until the session timeout"


def ask_both(
    channel: RecipeChannel, first: MemberRequest[AnswerT], second: MemberRequest[OtherT]
) -> tuple[AnswerT, OtherT]:
    """Send two requests of different kinds in one batch, and return their answers."""
    requests: tuple[MemberRequest[Any], ...] = (first, second)
    answer, other = channel.ask_together(requests)
    return answer, other
