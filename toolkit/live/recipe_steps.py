"""
Carry out recipes: functions that ask a group's coordinator over a channel, and put things in order.

So a recipe reads from top to bottom, is tested without a broker over a scripted channel, and can be
interrupted at every single step.
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
    """What carries out the steps of recipes: a `GroupChannel`, or what stands before one."""

    def ask(self, request: MemberRequest[AnswerT]) -> AnswerT:
        """Send a request and return its answer."""
        (answer,) = self.ask_together([request])
        return answer

    def ask_together(self, requests: Sequence[MemberRequest[AnswerT]]) -> tuple[AnswerT, ...]:
        """Return the answers to some requests, in their order; of none, nothing is sent."""

    def send_ahead(
        self, request: MemberRequest[AnswerT], *, after: PendingAnswer[Any] | None = None
    ) -> PendingAnswer[AnswerT]:
        """
        Send a request, and return what `wait_for` takes.

        It goes over a connection of its own, or over that of a request that was sent ahead before:
        a broker takes it up `after` it has answered that one.
        """

    def wait_for(self, pending: PendingAnswer[AnswerT]) -> AnswerT:
        """Return the answer to a request that was sent."""

    def is_answered(self, pending: PendingAnswer[Any]) -> bool:
        """Return whether a request that was sent need not be waited for."""

    def sleep(self, seconds: float) -> float:
        """Let time pass, and return `now`."""

    def now(self) -> float:
        """Return a monotonic clock in seconds, which goes on while the machine is suspended."""


class CheckedChannel(RecipeChannel):
    """
    The channel of one recipe, which calls `check` before every step.

    What `check` or a step raises is raised inside the recipe. From then on the recipe puts things
    in order and is not checked any more.
    """

    def __init__(self, channel: RecipeChannel, check: Callable[[], None]) -> None:
        """Take the steps over another channel."""
        self._channel = channel
        self._check = check
        self._is_orderly = True

    def ask_together(self, requests: Sequence[MemberRequest[AnswerT]]) -> tuple[AnswerT, ...]:
        with self._step():
            return self._channel.ask_together(requests)

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
    """Return what is said of offsetbook's members that could not leave a group."""
    return f"{counted(count, 'offsetbook member')} may stay in the group until the session timeout"


def ask_both(
    channel: RecipeChannel, first: MemberRequest[AnswerT], second: MemberRequest[OtherT]
) -> tuple[AnswerT, OtherT]:
    """Send two requests of different kinds in one go, and return the answer to each."""
    requests: tuple[MemberRequest[Any], ...] = (first, second)
    answer, other = channel.ask_together(requests)
    return answer, other
