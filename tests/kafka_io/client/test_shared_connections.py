"""Questions that follow one another go over one connection."""

import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from applications import PATIENCE_S, Applications, eventually
from click.testing import CliRunner
from faulty_proxy import FaultyProxy
from idle_groups import idle_group
from operators import Operator

from toolkit import target
from toolkit.cli import cli
from toolkit.errors import ClusterUnreachable
from toolkit.kafka_io.client import shared_connections
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.shared_connections import SharedConnections, connected
from toolkit.kafka_io.client.timed_connections import TimedConnections
from toolkit.kafka_io.groups.commits import read_commits
from toolkit.model import Cluster
from toolkit.model.side_by_side import side_by_side
from toolkit.sandbox.broker import free_ports


class Opened(list[Connection]):
    """The connections that were opened, and the requests that were sent over them."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[str] = []
        self.closed: list[Connection] = []


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    found = Opened()
    init, answer, close = Connection.__init__, Connection._answer, Connection.close

    def begin(self: Connection, *words: Any, **options: Any) -> None:
        init(self, *words, **options)
        found.append(self)

    async def ask(self: Connection, request: Any, *words: Any) -> Any:
        found.requests.append(type(request).__name__)
        return await answer(self, request, *words)

    def end(self: Connection) -> None:
        found.closed.append(self)
        close(self)

    monkeypatch.setattr(Connection, "__init__", begin)
    monkeypatch.setattr(Connection, "_answer", ask)
    monkeypatch.setattr(Connection, "close", end)
    return found


@pytest.fixture
def connections() -> Iterator[SharedConnections]:
    with closing(SharedConnections()) as connections:
        yield connections


@pytest.fixture
def group(apps: Applications) -> str:
    return idle_group(apps, 7)[0]


def test_connections_are_opened_once_while_in_use(
    operator: Operator, connections: SharedConnections, opened: Opened
) -> None:
    """Elsewhere each block has its own; an inner use takes what the outer one has."""
    with connected(operator.cluster) as own:
        pass
    with connections.in_use(), connected(operator.cluster) as first:
        inner = SharedConnections()
        with inner.in_use(), connected(operator.cluster) as second:
            assert first is second
    with connections.in_use(), connected(operator.cluster) as third:
        assert first is third
    assert [own, first] == opened
    assert own in opened.closed
    assert first not in opened.closed
    connections.close()
    assert first in opened.closed


def test_the_socket_to_a_bootstrap_server_is_that_of_its_broker(
    bare_cluster: Cluster, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes a login less; not where another address was named than brokers are listed at."""
    opened: list[tuple[str, int]] = []
    build = TimedConnections._build_transport

    async def note(self: TimedConnections, node: Any, **options: Any) -> Any:
        opened.append((node.host, node.port))
        return await build(self, node, **options)

    monkeypatch.setattr(TimedConnections, "_build_transport", note)
    host, port = bare_cluster.bootstrap_servers.split(":")
    listed = (host, int(port))
    (spare,) = free_ports(1)
    with FaultyProxy(spare, to=listed[1]) as proxy:
        for address, sockets in ((bare_cluster.bootstrap_servers, 1), (proxy.address, 2)):
            opened.clear()
            with Connection(Cluster("eu", address)) as connection:
                for _ in range(2):
                    assert len(read_commits(connection, [group])[0]) == 1

            assert opened[-1] == listed
            assert len(opened) == sockets


def test_a_lost_connection_is_not_used_again(
    operator: Operator, connections: SharedConnections, opened: Opened
) -> None:
    """It is closed once no thread uses it any more."""
    with connections.in_use():
        with (
            pytest.raises(ClusterUnreachable),
            connected(operator.cluster) as lost,
            connected(operator.cluster),
        ):
            raise ClusterUnreachable("no answer")
        with connected(operator.cluster) as new:
            assert lost is not new
            assert lost in opened.closed


def test_a_connection_that_is_not_used_is_closed_after_a_while(
    operator: Operator,
    connections: SharedConnections,
    opened: Opened,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that is used again in time stays open, and one that is in use is left alone."""
    with connections.in_use():
        with connected(operator.cluster) as first:
            pass
        monkeypatch.setattr(shared_connections, "IDLE_S", 0.01)
        with connected(operator.cluster) as second, connected(operator.cluster):
            assert first is second
        eventually(lambda: first in opened.closed)
        with connected(operator.cluster) as third:
            assert first is not third


def test_two_threads_share_one_connection(
    operator: Operator, connections: SharedConnections, opened: Opened
) -> None:
    """They begin at the same time, and both get answers."""
    ids: list[str] = []
    ready = threading.Barrier(2)

    def ask() -> None:
        ready.wait()
        with connections.in_use(), connected(operator.cluster) as connection:
            ids.append(connection.cluster_id)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert 1 == len(opened)
    assert 2 == len(ids)


def test_a_session_plans_and_applies_over_one_connection(
    operator: Operator, group: str, opened: Opened
) -> None:
    """It does not look up the coordinator: the broker that lists a group coordinates it."""
    session = operator.session
    session.run_notices()
    change = session.reset([group], to=target("to-earliest"))
    assert not change.review.empty  # reads when the records were written
    approve = change.plan.fingerprint
    done = change.decide(dry_run=False, approve=approve, reason="read again").apply()
    assert done.changed_anything
    assert 1 == len(opened)
    assert 0 == opened.requests.count("FindCoordinatorRequest")


def test_a_command_opens_one_connection(operator: Operator, group: str, opened: Opened) -> None:
    """And closes it."""
    words = ["reset", "--cluster", operator.cluster.bootstrap_servers, "--group", group]
    done = CliRunner().invoke(cli, [*words, "--to-earliest", "--dry-run"], catch_exceptions=False)
    assert 0 == done.exit_code
    assert 1 == len(opened)
    assert opened[0] in opened.closed
    assert 0 == opened.requests.count("FindCoordinatorRequest")


def test_a_cluster_that_does_not_answer_delays_no_other(
    bare_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two clusters are connected to at the same time: here each waits for the other."""
    at_once = threading.Barrier(2)
    init = Connection.__init__

    def begin(self: Connection, *words: Any, **options: Any) -> None:
        at_once.wait(PATIENCE_S)
        init(self, *words, **options)

    monkeypatch.setattr(Connection, "__init__", begin)
    with closing(SharedConnections()) as shared, shared.in_use():

        def ask(name: str) -> Connection:
            with connected(replace(bare_cluster, name=name)) as connection:
                return connection

        eu, us = side_by_side(ask, ["eu", "us"])

    assert eu is not us
