"""The steps of a recipe are carried out over a channel, and a recipe is interrupted once."""

from typing import Any

import pytest
from recipe_runs import ScriptedChannel, SentAhead

from toolkit.errors import ClusterUnreachable, Interrupted
from toolkit.kafka_io.membership.channel import GroupChannel
from toolkit.kafka_io.membership.classic import ClassicHeartbeat, Leave
from toolkit.kafka_io.membership.topics_and_commits import FetchCommits
from toolkit.live.recipe_steps import CheckedChannel, RecipeChannel, ask_both
from toolkit.model import Cluster


class Broker(ScriptedChannel):
    """Answers each request with its place in the order of all."""

    def answer(self, _request: object) -> int:
        return len(self.requests) - 1


BEAT, LEAVE = ClassicHeartbeat("m", 1), Leave(("m",))


def recipe(channel: RecipeChannel) -> list[Any]:
    """Ask, wait, ask together, leave one waiting; leave the group whatever happens."""
    answers: list[Any] = []
    try:
        answers.append(channel.ask(BEAT))
        answers.append(channel.sleep(0.5))
        answers.append(ask_both(channel, BEAT, FetchCommits()))
        answers.append(channel.ask_together([BEAT, BEAT]))
        answers.append(channel.wait_for(channel.send_ahead(BEAT)))
        one = channel.send_ahead(BEAT)
        other = channel.send_ahead(LEAVE, after=one)
        answers.append(channel.is_answered(one))
        answers.append(channel.wait_for(other))
    except Interrupted:
        channel.ask(LEAVE)
        channel.ask(LEAVE)
        raise
    return answers


def test_a_recipe_gets_the_responses_to_its_requests() -> None:
    """Each kind of step has its response, and the result of the recipe is returned."""
    broker = Broker()

    answers = recipe(CheckedChannel(broker, lambda: None))

    assert [0, 0.5, (1, 2), (3, 4), 5, True, 6] == answers
    assert [BEAT, BEAT, FetchCommits(), BEAT, BEAT, BEAT, LEAVE] == broker.requests
    _, one, other = (step for step in broker.steps if isinstance(step, SentAhead))
    assert (BEAT, LEAVE, one) == (one.request, other.request, other.after)


@pytest.mark.parametrize("step", range(10))
def test_a_recipe_can_be_interrupted_at_every_step(step: int) -> None:
    """An error of `check` is raised inside, once; later requests are sent."""
    broker, checks = Broker(), iter(range(100))

    def check() -> None:
        if next(checks) >= step:
            raise Interrupted("enough")

    with pytest.raises(Interrupted):
        recipe(CheckedChannel(broker, check))

    assert (step + 1, [LEAVE, LEAVE]) == (next(checks), broker.requests[-2:])


def test_an_error_of_a_request_is_raised_inside_the_recipe() -> None:
    """A broker that is gone ends a recipe that does not expect it."""
    broker = Broker()
    broker.fail(ClusterUnreachable("nobody is there"), at=2, is_heard=False)
    with pytest.raises(ClusterUnreachable):
        recipe(CheckedChannel(broker, lambda: None))


@pytest.mark.parametrize("error", [ClusterUnreachable("gone"), KeyError("a defect")], ids=type)
def test_a_recipe_is_not_checked_after_a_failed_step(error: Exception) -> None:
    """Cleaning up, also after an unexpected error, is not interrupted."""
    broker, failed = Broker(), []
    broker.fail(error, at=0, is_heard=False)

    def check() -> None:
        if failed:
            raise Interrupted("enough")

    channel = CheckedChannel(broker, check)
    with pytest.raises(type(error)):
        channel.ask(BEAT)
    failed.append(1)

    channel.ask(LEAVE)

    assert [LEAVE] == broker.requests


def test_an_empty_batch_is_not_sent() -> None:
    """No coordinator is looked up without a request."""
    with GroupChannel(Cluster("eu", "127.0.0.1:1"), "group") as channel:
        assert () == channel.ask_together([])
