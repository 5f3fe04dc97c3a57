"""
Define recipes: generators that yield requests and receive responses.

So a recipe reads from top to bottom, is tested without a broker by handing it answers, and can be
interrupted at every single step. `run_recipe` is the one place where its requests are really sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

from toolkit.kafka_io.membership.request import MemberRequest


@dataclass(frozen=True, slots=True)
class SendBatch:
    """Requests that go to the coordinator in one go; the answer is a tuple in their order."""

    requests: tuple[MemberRequest, ...]


@dataclass(frozen=True, slots=True)
class SendAhead:
    """
    A request sent on a separate connection; the answer is what `WaitFor` takes.

    The connection is a new one, or that of a request that was sent ahead before, `after`.
    """

    request: MemberRequest
    after: Any = None


@dataclass(frozen=True, slots=True)
class SendInTurn:
    """
    Requests sent ahead on one separate connection; the answer is a tuple of what `WaitFor` takes.

    A broker takes each of them up as soon as it has answered the one before. The connection is a
    new one, or that of a request that was sent ahead before, `after`.
    """

    requests: tuple[MemberRequest, ...]
    after: Any = None


@dataclass(frozen=True, slots=True)
class WaitFor:
    """Wait for the answer to a request that was sent ahead."""

    sent: Any


@dataclass(frozen=True, slots=True)
class IsAnswered:
    """Whether `WaitFor` would return at once for a request that was sent ahead."""

    sent: Any


@dataclass(frozen=True, slots=True)
class Sleep:
    """Let time pass; the answer is the monotonic clock in seconds, also of `Sleep(0)`."""

    seconds: float


T = TypeVar("T")
Yielded: TypeAlias = (
    MemberRequest | SendBatch | SendAhead | SendInTurn | WaitFor | IsAnswered | Sleep
)
RecipeGenerator: TypeAlias = Generator[Yielded, Any, T]


class RequestChannel(Protocol):
    """What a recipe's requests are sent through."""

    def ask_together(self, requests: tuple[MemberRequest, ...]) -> tuple[Any, ...]:
        """Return the answers to some requests, in their order."""

    def send_ahead(self, *requests: MemberRequest, after: Any = None) -> tuple[Any, ...]:
        """Send requests on one connection, and return what `wait_for` takes of each."""

    def wait_for(self, pending: Any) -> Any:
        """Return the answer to a request that was sent."""

    def is_answered(self, pending: Any) -> bool:
        """Return whether a request that was sent need not be waited for."""


def run_recipe(
    recipe: RecipeGenerator[T],
    channel: RequestChannel,
    *,
    check: Callable[[], None] = lambda: None,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """
    Carry a recipe out and return what it returns.

    `check` is called before every step; what it raises, and what sending raises, is raised inside
    the recipe, once. From then on the recipe puts things in order and is not checked any more.
    """
    answer: Any = None
    error: BaseException | None = None
    orderly = True
    while True:
        try:
            step = recipe.throw(error) if error else recipe.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result
        answer, error = None, None
        try:
            if orderly:
                check()
            answer = _take(step, channel, sleep)
        except BaseException as exc:  # noqa: BLE001 - raised in the recipe, which leaves no member
            orderly, error = False, exc


def _take(step: Yielded, channel: RequestChannel, sleep: Callable[[float], None]) -> Any:
    answer: Any
    match step:
        case Sleep(seconds):
            sleep(seconds)
            answer = time.monotonic()
        case SendAhead(request, after):
            (answer,) = channel.send_ahead(request, after=after)
        case SendInTurn(requests, after):
            answer = channel.send_ahead(*requests, after=after)
        case WaitFor(sent):
            answer = channel.wait_for(sent)
        case IsAnswered(sent):
            answer = channel.is_answered(sent)
        case SendBatch(requests):
            answer = channel.ask_together(requests) if requests else ()
        case request:
            (answer,) = channel.ask_together((request,))
    return answer
