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

from toolkit.errors import ToolkitError
from toolkit.kafka_io.membership.request import MemberRequest


@dataclass(frozen=True, slots=True)
class SendBatch:
    """Requests that go to the coordinator in one go; the answer is a tuple in their order."""

    requests: tuple[MemberRequest, ...]


@dataclass(frozen=True, slots=True)
class SendAhead:
    """A request sent on a separate connection; the answer is what `WaitFor` takes."""

    request: MemberRequest


@dataclass(frozen=True, slots=True)
class WaitFor:
    """Wait for the answer to a request that was sent ahead."""

    sent: Any


@dataclass(frozen=True, slots=True)
class Sleep:
    """Let time pass; the answer is the monotonic clock in seconds, also of `Sleep(0)`."""

    seconds: float


T = TypeVar("T")
Yielded: TypeAlias = MemberRequest | SendBatch | SendAhead | WaitFor | Sleep
RecipeGenerator: TypeAlias = Generator[Yielded, Any, T]


class RequestChannel(Protocol):
    """What a recipe's requests are sent through."""

    def ask_together(self, requests: tuple[MemberRequest, ...]) -> tuple[Any, ...]:
        """Return the answers to some requests, in their order."""

    def send_ahead(self, request: MemberRequest) -> Any:
        """Send a request, and return what `wait_for` takes."""

    def wait_for(self, pending: Any) -> Any:
        """Return the answer to a request that was sent."""


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
        except (ToolkitError, KeyboardInterrupt) as exc:
            orderly, error = False, exc


def _take(step: Yielded, channel: RequestChannel, sleep: Callable[[float], None]) -> Any:
    match step:
        case Sleep(seconds):
            sleep(seconds)
            return time.monotonic()
        case SendAhead(request):
            return channel.send_ahead(request)
        case WaitFor(sent):
            return channel.wait_for(sent)
        case SendBatch(requests):
            return channel.ask_together(requests) if requests else ()
        case request:
            (answer,) = channel.ask_together((request,))
            return answer
