"""The expiry forecast as a notebook, on a real broker."""

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest
from applications import Applications
from operators import Operator
from workspaces import NotebookOutcome, Workspace, parameters_of, shown_command

from toolkit.model import Cluster, TopicPartition
from toolkit.plan import Position
from toolkit.spark.spark_session import start_session

pytestmark = pytest.mark.slow("waits for offsets to expire")

HOSTILE = "<img src=x onerror=alert(1)>"
LONGER_THAN_RETENTION = "8d"  # brokers keep offsets for seven days
DONE = ("done", 0)

Cells = Callable[..., NotebookOutcome]


@pytest.fixture
def operator(exclusive_cluster: Cluster, tmp_path: Path) -> Operator:
    """Return an operator at a cluster of its own: the notebook is about all its groups."""
    return Operator(exclusive_cluster, tmp_path / "state")


@pytest.fixture
def apps(exclusive_apps: Applications) -> Applications:
    return exclusive_apps


@pytest.fixture(scope="session")
def _spark() -> Iterator[None]:
    """Have an embedded Spark session in which cells run; all of this process share one."""
    session = start_session()
    session.conf.set("spark.sql.shuffle.partitions", "2")  # there are few rows
    yield
    session.stop()


@pytest.fixture
def cells(workspace: Workspace, _spark: None) -> Cells:
    return partial(workspace.cells, "30_expiry_forecast", within=LONGER_THAN_RETENTION)


@pytest.fixture
def idle(operator: Operator, apps: Applications) -> str:
    """Return an idle group of a dangerous name that committed both partitions of a topic."""
    topic = apps.create_topic(apps.name("expiring"), partitions=2, records=9)
    group = apps.name(HOSTILE)
    operator.commit(group, {TopicPartition(topic, n): Position(7, 0, "a note") for n in (0, 1)})
    return group


def committed_at(operator: Operator, group: str) -> list[datetime]:
    return [commit.committed_at for commit in operator.facts(group).commits if commit.committed_at]


def test_a_forecast(cells: Cells, operator: Operator, apps: Applications, idle: str) -> None:
    """What expires and what is at risk has its reason, and nothing is changed."""
    topic = apps.create_topic(apps.name("kept"))
    live = apps.join(apps.name("live"), [topic], protocol="consumer")
    live.commit(offsets=[apps.position(TopicPartition(topic, 0), 0)], asynchronous=False)
    before = committed_at(operator, idle)

    look = cells()

    assert (DONE, None) == (look.ended, look.conclusion.undo)
    assert look.conclusion.counts["findings"] >= 3
    assert "planned" not in look.conclusion.counts
    assert "group has no members; 7 d after the commit at" in look.shown
    assert "Expiry timeline" in look.shown
    assert "Fingerprint" not in look.shown
    assert HOSTILE not in look.shown
    assert f"2 offsets of 1 group expire within {LONGER_THAN_RETENTION}" in look.conclusion.summary
    assert (before, []) == (committed_at(operator, idle), operator.log)


@pytest.mark.usefixtures("idle")
def test_nothing_expires_soon(cells: Cells) -> None:
    """The finding says what expires next, and the next step looks as far ahead as that."""
    look = cells(within="1h")

    assert (DONE, 0) == (look.ended, look.conclusion.counts["findings"])
    assert "The next one expires at" in look.conclusion.summary
    assert "Look further ahead" in look.shown
    _, further = parameters_of(shown_command(look.shown))
    assert cells(**further).conclusion.counts["findings"] >= 2


def test_a_rescue_from_dry_run_to_done(cells: Cells, workspace: Workspace, idle: str) -> None:
    """The dry run changes nothing and shows the command that resets the retention timers."""
    operator = workspace.operator
    before, held = committed_at(operator, idle), operator.held(idle)

    dry = cells(rescue=True, groups=[idle])

    assert (DONE, 2, []) == (dry.ended, dry.conclusion.counts["planned"], operator.log)
    assert dry.conclusion.summary.startswith("Dry run: nothing was changed.")
    assert before == committed_at(operator, idle)

    done = workspace.invoke(shown_command(dry.shown), "a test")

    assert ("done", 2) == (done["status"], done["counts"]["changed"])
    assert held == operator.held(idle)
    assert max(before) < min(committed_at(operator, idle))
    assert ["a test"] == [entry.run.reason for entry in operator.log[:1]]
    assert HOSTILE not in Path(done["folder"], "report.html").read_text("utf-8")
