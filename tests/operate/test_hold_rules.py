"""A plan to pause is judged again when it is applied, by what is held in the group then."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from applications import eventually
from live_groups import LiveGroup
from operators import REBALANCING, Operator, once_at_rest

from toolkit.errors import ClusterUnreachable, ToolkitError
from toolkit.model import Cluster, GroupState
from toolkit.operate.move import move
from toolkit.plan import Action, Outcome, Plan
from toolkit.plan.approvals import Approval
from toolkit.planning.changes.move import MoveRequest, plan_move
from toolkit.planning.changes.pause import plan_pause, plan_resume
from toolkit.planning.changes.targets import ToOffset
from toolkit.planning.holds.hold_context import HoldTerms

pytestmark = pytest.mark.live("consumers and keepers run")

UNTIL_RESUMED = HoldTerms()
FOR_AN_HOUR = HoldTerms(pause_for=timedelta(hours=1))


@pytest.fixture(params=["librdkafka-consumer", "librdkafka-range"])
def live(
    operator: Operator,
    shared_group: Callable[[Cluster, str], LiveGroup],
    request: pytest.FixtureRequest,
) -> LiveGroup:
    """Return a live group of either protocol, which tests share, once it is at rest."""
    group = shared_group(operator.cluster, request.param)
    eventually(lambda: operator.look(group.group).groups[0].state is GroupState.STABLE)
    eventually(lambda: operator.held(group.group)[group.group].keys() >= set(group.places))
    return group


def pausing(
    operator: Operator, live: LiveGroup, number: int, terms: HoldTerms = UNTIL_RESUMED
) -> Plan:
    facts = operator.facts(live.group, topics=live.topics)
    return plan_pause(facts, group=live.group, topics=[f"{live.topics[0]}:{number}"], terms=terms)


@contextmanager
def paused(operator: Operator, live: LiveGroup, number: int) -> Iterator[None]:
    """Pause one partition, and resume all that is paused in the end."""
    assert once_at_rest(lambda: operator.apply(pausing(operator, live, number))).is_done
    try:
        yield
    finally:
        plan = plan_resume(operator.facts(live.group, topics=live.topics), group=live.group)
        assert operator.apply(plan).is_done


def refusal_at_rest(operator: Operator, plan: Plan, *overrides: str) -> ToolkitError:
    """Return why a plan is refused, which records nothing, once the group is at rest."""

    def refused() -> ToolkitError | None:
        before = operator.log
        with pytest.raises(ToolkitError) as caught:
            operator.apply(plan, *overrides)
        assert before == operator.log
        is_rebalancing = any(rule in str(caught.value) for rule in REBALANCING)
        return None if is_rebalancing else caught.value

    found: ToolkitError = eventually(refused)
    return found


def test_a_pause_with_another_end_than_the_hold_is_blocked(
    operator: Operator, live: LiveGroup
) -> None:
    """The plan is older than the hold, so only applying it can find that."""
    plan = pausing(operator, live, 0, FOR_AN_HOUR)
    assert [] == [found.rule for found in plan.findings if found.blocks]

    with paused(operator, live, 1):
        refusal = refusal_at_rest(operator, plan)
        assert "other-end" in refusal.problem
        assert "override other-end" in str(refusal.hint)
        assert once_at_rest(lambda: operator.apply(plan, "other-end")).is_done


def test_a_move_ends_its_own_hold(operator: Operator, live: LiveGroup) -> None:
    """If another partition is paused until it is resumed, it stays so."""
    eventually(lambda: operator.held(live.group)[live.group][live.places[0]].offset > 3)

    with paused(operator, live, 1):
        request = MoveRequest(ToOffset(3), live.group, (f"{live.topics[0]}:0",))
        facts = operator.facts(live.group, topics=live.topics)
        planned = plan_move(facts, request)
        approval = Approval(planned.plan.fingerprint, "a test", ("too-many-records",))
        outcome = once_at_rest(
            lambda: move(planned, operator.cluster, approval, state=operator.state).outcome
        )
        assert [Action.HOLD, Action.MOVE, Action.RELEASE] == [s.action for s in outcome.steps]
        assert outcome.is_done
        assert {live.places[1]} == operator.look(live.group).groups[0].paused.keys()
        # The override is about the records, so it is recorded with the move only.
        recorded = {entry.intent: entry.run.overrides for entry in operator.log[-6:]}
        assert {"pause": (), "move": ("too-many-records",), "resume": ()} == recorded


def test_a_move_keeps_paused_partitions_paused(operator: Operator, live: LiveGroup) -> None:
    """A moved one is read from its new offset once it is resumed."""
    eventually(lambda: operator.held(live.group)[live.group][live.places[0]].offset > 3)

    with paused(operator, live, 1):
        outcome = once_at_rest(lambda: moved_back(operator, live, 0, 1))
        assert outcome.is_done
        (release,) = (s for s in outcome.steps if s.action is Action.RELEASE)
        assert [live.places[0]] == [result.partition for result in release.results]
        assert {live.places[1]} == operator.look(live.group).groups[0].paused.keys()


@pytest.mark.parametrize("asks_keeper", [True, False], ids=["asked", "never asked"])
def test_a_move_that_cannot_resume_leaves_nothing_paused(
    *, operator: Operator, live: LiveGroup, monkeypatch: pytest.MonkeyPatch, asks_keeper: bool
) -> None:
    """What it added to an existing pause is released by the keeper of that."""
    eventually(lambda: operator.held(live.group)[live.group][live.places[0]].offset > 3)

    def fail(*_: object, **__: object) -> Plan:
        raise ClusterUnreachable("nobody is there")

    with paused(operator, live, 1):
        monkeypatch.setattr("toolkit.operate.move.plan_resume", fail)
        if not asks_keeper:
            monkeypatch.setattr("toolkit.operate.move.release_by_keeper", fail)
            monkeypatch.setattr("toolkit.operate.move.LONGEST", timedelta(seconds=20))
        outcome = once_at_rest(lambda: moved_back(operator, live, 0))

        assert "nobody is there" in outcome.steps[1].why
        eventually(lambda: {live.places[1]} == operator.look(live.group).groups[0].paused.keys())


def moved_back(operator: Operator, live: LiveGroup, *numbers: int) -> Outcome:
    scope = f"{live.topics[0]}:{','.join(map(str, numbers))}"
    facts = operator.facts(live.group, topics=live.topics)
    planned = plan_move(facts, MoveRequest(ToOffset(3), live.group, (scope,)))
    approval = Approval(planned.plan.fingerprint, "a test", ("too-many-records",))
    return move(planned, operator.cluster, approval, state=operator.state).outcome
