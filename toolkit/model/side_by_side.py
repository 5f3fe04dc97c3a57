"""Ask many clusters at the same time, so that one that does not answer delays no other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

CLUSTERS_AT_ONCE = 16


def side_by_side(ask: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """
    Return what `ask` returns for each item, in their order; up to 16 are asked at the same time.

    Each sees the context of the caller, such as the connections in use. The first error of `ask`
    is raised; Ctrl-C does not wait for answers.
    """
    waiting: SimpleQueue[tuple[Item, Future[Result]]] = SimpleQueue()
    answers = [Future[Result]() for _ in items]
    for one in zip(items, answers, strict=True):
        waiting.put(one)
    for _ in range(min(len(items), CLUSTERS_AT_ONCE)):
        # No pool: the interpreter would wait for its threads before it ends.
        context = copy_context()
        threading.Thread(target=context.run, args=(_serve, ask, waiting), daemon=True).start()
    return [answer.result() for answer in answers]


def _serve(
    ask: Callable[[Item], Result], waiting: SimpleQueue[tuple[Item, Future[Result]]]
) -> None:
    while True:
        try:
            item, answer = waiting.get_nowait()
        except Empty:
            return
        try:
            answer.set_result(ask(item))
        except BaseException as exc:  # noqa: BLE001 - raised where the answer is waited for
            answer.set_exception(exc)
