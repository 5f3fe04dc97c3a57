"""A broker that may be broken, and operators in processes of their own."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from applications import Applications
from brokers import kill, until_ready
from operators import Operator
from payment_groups import OperatorProcess, PaymentGroups, StartOperator
from three_brokers import ThreeBrokers

from toolkit.model import Cluster
from toolkit.plan import Plan
from toolkit.sandbox.broker import Broker, start_broker


@dataclass(frozen=True)
class Breakable:
    """A broker whose process is killed and started again."""

    broker: Broker

    def kill(self) -> None:
        kill(self.broker)
        self.broker.stop()

    def start(self) -> None:
        assert self.broker.address == start_broker(self.broker.directory).address


@pytest.fixture(autouse=True)
def _left_over(lost_sockets: None) -> None:
    """Every test here may lose its broker."""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeBrokers]:
    with ExitStack() as ending:
        yield ThreeBrokers(tmp_path_factory.mktemp("three"), ending)


@pytest.fixture(scope="package")
def _breakable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Breakable]:
    broker = start_broker(tmp_path_factory.mktemp("breakable"))
    try:
        yield Breakable(broker)
    finally:
        broker.stop()


@pytest.fixture
def breakable(_breakable: Breakable) -> Breakable:
    """Return a broker that may be broken, and runs."""
    _breakable.start()
    until_ready(_breakable.broker.address)
    return _breakable


@pytest.fixture
def operator(breakable: Breakable, tmp_path: Path) -> Operator:
    return Operator(Cluster("breakable", breakable.broker.address), tmp_path / "state")


@pytest.fixture
def payments(
    operator: Operator,
    applications: Callable[[Cluster], Applications],
    start_operator: StartOperator,
) -> PaymentGroups:
    return PaymentGroups.create(operator, applications(operator.cluster), start_operator)


@pytest.fixture
def start_operator(tmp_path: Path) -> Iterator[StartOperator]:
    started: list[OperatorProcess] = []
    numbers = itertools.count()

    def start(operator: Operator, plan: Plan) -> OperatorProcess:
        folder = tmp_path / f"operator-{next(numbers)}"
        folder.mkdir()
        started.append(OperatorProcess(operator, plan, folder))
        return started[-1]

    yield start
    for running in started:
        running.kill()
