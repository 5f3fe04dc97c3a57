"""Brokers that answer late or at one address only, and what is said of those that do not."""

import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from applications import eventually
from kafka.protocol.admin import AlterClientQuotasRequest, ListGroupsRequest

from toolkit.errors import ClusterUnreachable
from toolkit.kafka_io.client.connection import AT_ONCE, Connection, Response, TaggedRequest
from toolkit.kafka_io.client.coordinators import ask_coordinators
from toolkit.kafka_io.client.leaders import ask_leaders, find_leaders
from toolkit.kafka_io.groups.commits import read_commits
from toolkit.kafka_io.logs.log_offsets import LATEST, list_offsets_request
from toolkit.model import Cluster, Problem, TopicPartition, Unread

OTHER = "127.0.0.2"  # on loopback, too
HOST = "two-addresses.test"


def silent(port: int, stack: ExitStack) -> None:
    """Listen at the other address, take connections, and say nothing."""
    stack.enter_context(socket.create_server((OTHER, port), backlog=50))


def unreachable(port: int, stack: ExitStack) -> None:
    """Listen at the other address with a full queue, so that nobody can connect any more."""
    stack.enter_context(socket.create_server((OTHER, port), backlog=0))
    while True:
        waiting = stack.enter_context(socket.socket())
        waiting.settimeout(0.3)
        try:
            waiting.connect((OTHER, port))
        except TimeoutError:
            return


@pytest.mark.parametrize("other", [silent, unreachable])
def test_each_address_of_a_host_has_its_turn(
    other: Callable[[int, ExitStack], None], bare_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host with two addresses, the first of which does not answer, is reached by the second."""
    address, _, port = bare_cluster.bootstrap_servers.partition(":")
    look_up = socket.getaddrinfo

    def both(host: str, *rest: Any, **named: Any) -> list[Any]:
        hosts = [OTHER, address] if host == HOST else [host]
        return [one for name in hosts for one in look_up(name, *rest, **named)]

    monkeypatch.setattr(socket, "getaddrinfo", both)
    with ExitStack() as stack:
        other(int(port), stack)
        for timeout_s in (4.0, 15.0):
            with Connection(Cluster("eu", f"{HOST}:{port}", timeout_s=timeout_s)) as connection:
                assert connection.cluster_id


@contextmanager
def throttled(cluster: Cluster, client_id: str) -> Iterator[Cluster]:
    """Return the cluster under a client id that may take hardly any of the broker's time."""
    entry = AlterClientQuotasRequest.EntryData
    op = entry.OpData("request_percentage", 0.001, False)
    who = entry.EntityData("client-id", client_id)
    try:
        with Connection(cluster) as connection:
            connection.send(AlterClientQuotasRequest([entry([who], [op])], False))
        yield replace(cluster, settings={**cluster.settings, "client.id": client_id})
    finally:
        op = entry.OpData("request_percentage", 0.0, True)
        with Connection(cluster) as connection:
            connection.send(AlterClientQuotasRequest([entry([who], [op])], False))


def test_a_quota_is_waited_for(bare_cluster: Cluster, unique_name: Callable[[str], str]) -> None:
    """A client that a quota throttles is answered later; each request within the timeout."""
    limited = throttled(bare_cluster, unique_name("client"))
    with limited as cluster, Connection(cluster) as connection:
        (broker,) = connection.broker_ids
        for _ in range(3):
            connection.send(ListGroupsRequest(), to=broker)
            connection.send(ListGroupsRequest())


def test_a_quota_is_named(bare_cluster: Cluster, unique_name: Callable[[str], str]) -> None:
    """A broker that throttles for longer than the timeout is not reported as down."""
    with throttled(bare_cluster, unique_name("client")) as limited, Connection(limited) as found:
        (broker,) = found.broker_ids
        found.cluster = replace(limited, timeout_s=0.05)

        def refusal() -> ClusterUnreachable | None:
            try:
                found.send(ListGroupsRequest(), to=broker)
            except ClusterUnreachable as exc:
                return exc
            return None

        error = eventually(refusal)

    assert "throttled by a quota" in error.problem
    assert "raise the quota" in error.hint


GONE = 77  # a broker that the cluster does not have


class LateSilence(Connection):
    """A connection on which it takes longer to notice a silent broker than to give a group up."""

    def send_each(
        self, asks: Mapping[int, Iterable[TaggedRequest]], *, at_once: int = AT_ONCE
    ) -> Iterator[Response]:
        time.sleep(0.1)
        yield from super().send_each(asks, at_once=at_once)


def test_the_successor_of_a_silent_broker_is_asked(
    bare_cluster: Cluster, apps: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinator, and a leader, that did not answer is looked up again, however late that is."""
    monkeypatch.setattr("toolkit.kafka_io.client.coordinators.RETRY_FOR_S", 0.05)
    place, group = TopicPartition(apps.create_topic(apps.name("orders"), records=3), 0), "silent"
    apps.commit(group, {place: 1})
    with LateSilence(bare_cluster) as connection:
        connection.coordinators[group] = GONE
        commits, problems = read_commits(connection, [group])
        leaders, _ = find_leaders(connection, [place])
        silent = {place: leaders[place]._replace(node_id=GONE)}
        (reply,) = ask_leaders(connection, silent, log_ends)

    assert ([1], []) == ([commit.offset for commit in commits], problems)
    assert 3 == reply.entry.offset


def log_ends(partitions: Sequence[TopicPartition]) -> Iterable[tuple[None, Any]]:
    yield None, list_offsets_request(dict.fromkeys(partitions, LATEST), timeout_s=15)


@dataclass
class Restarting:
    """A connection to a broker that does not answer, until another one coordinates its groups."""

    silent: bool
    until: float
    coordinators: dict[str, int] = field(default_factory=dict)

    def is_silent(self, node_id: int) -> bool:
        """Return whether it was waited for in vain."""
        return self.silent and node_id == GONE

    def send(self, request: Any, **_: Any) -> Any:
        """Tell who coordinates groups."""
        node_id = GONE if time.monotonic() < self.until else 1
        found = [
            SimpleNamespace(key=key, node_id=node_id, error_code=0, error_message=None)
            for key in request.coordinator_keys
        ]
        return SimpleNamespace(coordinators=found)

    def send_each(
        self, asks: Mapping[int, Iterable[TaggedRequest]], **_: Any
    ) -> Iterator[Response]:
        for node_id, requests in asks.items():
            for about, _request in requests:
                groups = [SimpleNamespace(group_id=name, error_code=0) for name in about]
                answer: Any = SimpleNamespace(groups=groups)
                if node_id == GONE:
                    answer = ClusterUnreachable("no connection")
                yield Response(node_id, about, answer)


@pytest.mark.parametrize("silent", [True, False])
def test_a_killed_coordinator_is_waited_for_until_another_is_elected(*, silent: bool) -> None:
    """It is known to be dead at once, and named for some seconds; a silent one was long before."""
    connection: Any = Restarting(silent, time.monotonic() + 1.5)

    (found,) = ask_coordinators(
        connection, ["payments"], what=Unread.GROUP, build=lambda _: SimpleNamespace()
    )

    assert silent == isinstance(found, Problem)
