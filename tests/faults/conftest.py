"""A broker that may be broken, and operators in processes of their own."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from applications import Applications, eventually
from brokers import kill, until_ready
from operators import Operator
from processes import suspend
from three_brokers import ThreeBrokers

import toolkit
from toolkit.model import Cluster, TopicPartition
from toolkit.plan import Plan
from toolkit.sandbox.broker import Broker, start_broker
from toolkit.storage.plan_files import write_plan

PROGRAM = Path(__file__).parent / "apply_by_steps.py"
# The program is to run the same code as the test, wherever that was installed from.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(toolkit.__file__).parent.parent)}
PATIENCE_S = 600  # for a process that hangs; no test claims how fast a process ends


@dataclass(frozen=True)
class Breakable:
    """A broker whose process is killed, frozen and started again."""

    broker: Broker

    def kill(self) -> None:
        """End the broker's process as a power cut would, and wait until it is over."""
        kill(self.broker)
        self.broker.stop()

    def start(self) -> None:
        """Start the broker again, at its address and with its data."""
        assert self.broker.address == start_broker(self.broker.directory).address

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Have the broker answer nobody."""
        pid = self.broker.pid
        assert pid, "the broker does not run"
        suspend(pid)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)


@pytest.fixture(autouse=True)
def _left_over(lost_sockets: None) -> None:
    """Every test here may lose its broker."""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeBrokers]:
    """Return a cluster of three brokers, of which everything may be broken."""
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
    """Return an operator at the breakable cluster."""
    return Operator(Cluster("breakable", breakable.broker.address), tmp_path / "state")


@pytest.fixture
def apps(applications: Callable[[Cluster], Applications], operator: Operator) -> Applications:
    """Return the applications on the breakable cluster."""
    return applications(operator.cluster)


@pytest.fixture
def orders(apps: Applications) -> TopicPartition:
    """Return the partition of a topic, with 10 records."""
    return TopicPartition(apps.create_topic(apps.name("orders"), records=10), 0)


@pytest.fixture
def groups(operator: Operator, apps: Applications, orders: TopicPartition) -> list[str]:
    """Return four idle groups that have read 7 records, in the order of plans."""
    names = sorted(apps.name("payments") for _ in range(4))
    for name in names:
        operator.commit(name, {orders: 7})
    return names


class OperatorProcess:
    """An operator in a process of its own, who applies a plan step by step."""

    def __init__(self, operator: Operator, plan: Plan, folder: Path) -> None:
        """Start; `folder` takes the plan file and what the process says."""
        write_plan(folder / "plan.json", plan)
        self.said = folder / "said"
        arguments = (operator.cluster.bootstrap_servers, folder / "plan.json", operator.state)
        with self.said.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, PROGRAM, *arguments],
                env=ENVIRONMENT,
                stdin=subprocess.PIPE,
                stdout=output,  # what goes wrong before it begins goes to the test's own stderr
            )

    @property
    def lines(self) -> list[str]:
        """What the process has said so far."""
        return self.said.read_text("utf-8").splitlines()

    def after_step(self, number: int) -> None:
        """Tell the process to go on until it has taken so many steps."""
        for taken in range(1, number + 1):
            if taken > 1:
                self._tell("\n")
            eventually(lambda wanted=taken: self._has_said(wanted))

    def go_on(self, steps: int = 1) -> None:
        """Tell the process to go on after so many steps, and do not wait for the next one."""
        self._tell("\n" * steps)

    def _has_said(self, lines: int) -> bool:
        said = len(self.lines) >= lines
        assert said or self.process.poll() is None, self.lines
        return said

    def _tell(self, words: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(words.encode())
        self.process.stdin.flush()

    def end(self) -> tuple[int, str]:
        """Let the process run to its end; return its exit code and its last words."""
        if self.process.stdin:
            self.process.stdin.close()
        code = self.process.wait(PATIENCE_S)
        return code, (self.lines or [""])[-1]

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        self.process.send_signal(number)

    def stop(self) -> None:
        """Stop the process with SIGSTOP; it does not continue, but can be killed."""
        suspend(self.process.pid)

    def kill(self) -> None:
        """End the process as a power cut would."""
        self.process.kill()
        self.end()


@pytest.fixture
def start_operator(tmp_path: Path) -> Iterator[Callable[[Operator, Plan], OperatorProcess]]:
    """Return a function that starts operators, whose processes end with the test."""
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
