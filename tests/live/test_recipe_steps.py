"""A recipe is carried out step by step, and is interrupted once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from toolkit.errors import ClusterUnreachable, Interrupted
from toolkit.kafka_io.membership.classic import ClassicHeartbeat, Leave
from toolkit.kafka_io.membership.request import MemberRequest
from toolkit.kafka_io.membership.topics_and_commits import FetchCommits
from toolkit.live.recipe_steps import (
    IsAnswered,
    RecipeGenerator,
    SendAhead,
    SendBatch,
    SendInTurn,
    Sleep,
    WaitFor,
    run_recipe,
)


@dataclass
class Broker:
    """Answers each request with its place in the order of all, and remembers them."""

    heard: list[MemberRequest] = field(default_factory=list)
    ahead: list[MemberRequest] = field(default_factory=list)
    silent_after: int = 1000
    error: Exception = field(default_factory=lambda: ClusterUnreachable("nobody is there"))

    def ask_together(self, requests: Sequence[MemberRequest]) -> tuple[Any, ...]:
        """Take several requests."""
        if len(self.heard) >= self.silent_after:
            self.silent_after = 1000
            raise self.error
        self.heard += requests
        return tuple(range(len(self.heard) - len(requests), len(self.heard)))

    def send_ahead(self, *requests: MemberRequest, after: str | None = None) -> tuple[str, ...]:
        """Take some that wait."""
        self.ahead += requests
        return tuple("sent" if after is None else f"{after} after" for _ in requests)

    def is_answered(self, pending: str) -> bool:
        """Whether one that waits is answered."""
        return pending.startswith("sent")

    def wait_for(self, pending: str) -> str:
        """Answer it."""
        return f"answer to what was {pending}"


BEAT, LEAVE = ClassicHeartbeat("m", 1), Leave(("m",))


def recipe() -> RecipeGenerator[list[Any]]:
    """Ask, wait, ask together, leave one waiting; leave the group whatever happens."""
    answers = []
    try:
        answers.append((yield BEAT))
        answers.append((yield Sleep(0.5)) > 0)
        answers.append((yield SendBatch((BEAT, FetchCommits()))))
        answers.append((yield SendBatch(())))
        answers.append((yield WaitFor((yield SendAhead(BEAT)))))
        one, other = yield SendInTurn((BEAT, LEAVE), after=(yield SendAhead(BEAT)))
        answers.append((yield IsAnswered(one)))
        answers.append((yield WaitFor(other)))
    except Interrupted:
        yield LEAVE
        yield LEAVE
        raise
    return answers


def test_a_recipe_gets_the_answers_to_what_it_asks() -> None:
    """Each kind of step is answered in its own way, and the recipe's result is returned."""
    broker, slept = Broker(), []

    answers = run_recipe(recipe(), broker, sleep=slept.append)

    answer = "answer to what was sent"
    assert [0, True, (1, 2), (), answer, True, f"{answer} after"] == answers
    assert [BEAT, BEAT, FetchCommits()] == broker.heard
    assert [BEAT, BEAT, BEAT, LEAVE] == broker.ahead
    assert [0.5] == slept


@pytest.mark.parametrize("step", range(9))
def test_a_recipe_can_be_interrupted_at_every_step(step: int) -> None:
    """What `check` raises is raised inside, once, and what is asked for then is done."""
    broker, checks = Broker(), iter(range(100))

    def check() -> None:
        if next(checks) >= step:
            raise Interrupted("enough")

    with pytest.raises(Interrupted):
        run_recipe(recipe(), broker, check=check, sleep=lambda _: None)

    assert [LEAVE, LEAVE] == broker.heard[-2:]


def test_what_sending_raises_is_raised_inside_the_recipe() -> None:
    """A broker that is gone ends a recipe that does not expect it."""
    with pytest.raises(ClusterUnreachable):
        run_recipe(recipe(), Broker(silent_after=1), sleep=lambda _: None)


def test_a_defect_is_raised_inside_the_recipe() -> None:
    """A recipe puts things in order also after an error that nobody expects."""
    broker = Broker(silent_after=1, error=KeyError("a defect"))

    def orderly() -> RecipeGenerator[None]:
        yield BEAT
        try:
            yield BEAT
        finally:
            yield LEAVE

    with pytest.raises(KeyError):
        run_recipe(orderly(), broker, sleep=lambda _: None)

    assert [BEAT, LEAVE] == broker.heard
