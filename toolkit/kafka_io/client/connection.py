"""
Connection to a cluster's brokers: send protocol requests and translate errors.

The client's low-level sending is not public API, so it is touched in this module only.
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from typing import Any, NamedTuple, Self

import kafka.errors
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError
from kafka.net.compat import KafkaNetClient
from kafka.net.selector import NetworkSelector

from toolkit.errors import BrokerRefused, ClusterUnreachable, ToolkitError, UsageError
from toolkit.kafka_io.client.client_settings import admin_settings
from toolkit.kafka_io.client.connection_diagnosis import (
    TIMEOUTS,
    check_silent,
    explain,
    why_not_connected,
)
from toolkit.kafka_io.client.timed_connections import NEXT_SERVER_AFTER_S, Server, TimedConnections
from toolkit.model import Cluster

# The client logs its errors, which are raised as well; without a handler, Python would print them.
logging.getLogger("kafka").addHandler(logging.NullHandler())
# At DEBUG it writes its configuration and its login requests, password and all.
logging.getLogger("kafka").setLevel(logging.INFO)

MOST_IN_FLIGHT = 1000
AT_ONCE = 2  # requests of a large read: a broker works on one while we decode the other's answer
LOOK_UP_EVERY_S = 0.2  # while an answer is waited for

# The broker did not say anything, so its next answer would be waited for just as long.
NO_ANSWER = (
    kafka.errors.KafkaConnectionError,
    kafka.errors.NodeNotReadyError,
    *TIMEOUTS,
    OSError,
)


class TaggedRequest(NamedTuple):
    """A request, and what it is about, for the reader of its response."""

    about: Any
    request: Any


class Response(NamedTuple):
    """The broker, what the request was about, and the response or why there is none."""

    node_id: int
    about: Any
    response: Any | ToolkitError
    is_sent: bool = True


class _Answers:
    """Answers as they come, None where a broker's turn has ended, and which brokers are silent."""

    def __init__(self) -> None:
        self.come: queue.SimpleQueue[Response | Exception | None] = queue.SimpleQueue()
        self.silent: dict[int, ToolkitError] = {}


class Connection:
    """An open connection to one cluster; use it in a `with` statement."""

    def __init__(self, cluster: Cluster, *, client_id: str | None = None) -> None:
        """
        Connect, under the client id of the cluster's settings or another one.

        Raises ClusterUnreachable, BrokerRefused, or UsageError for settings that cannot be used.
        """
        self.cluster = cluster
        self.coordinators: dict[str, int] = {}  # of groups, as far as they were looked up
        self._silent: dict[int | None, float] = {}  # brokers, and until when they are skipped
        try:
            settings = admin_settings(cluster)
            settings |= {} if client_id is None else {"client_id": client_id}
            settings |= {
                # Heartbeats of many members go out together; the order of others does not matter.
                "max_in_flight_requests_per_connection": MOST_IN_FLIGHT,
            }
            self._admin = _open_client(settings, timeout_s=cluster.timeout_s)
        except _NoServerAnswered as exc:
            raise _connect_error(cluster, exc) from exc
        except (kafka.errors.KafkaError, OSError, ValueError, AssertionError) as exc:
            raise UsageError(
                f"cluster {cluster.name}: invalid settings: {exc}",
                hint=f"fix them in {cluster.origin.settings}",
            ) from exc

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._admin.close()

    @property
    def cluster_id(self) -> str:
        """The id the cluster gave itself when it was formed."""
        return str(self._admin._manager.cluster.cluster_id or "")  # noqa: SLF001 - see module docstring

    @property
    def broker_ids(self) -> tuple[int, ...]:
        """Every broker that the cluster knows to be alive."""
        return tuple(sorted(b.node_id for b in self._admin._manager.cluster.brokers()))  # noqa: SLF001

    @property
    def addresses(self) -> dict[int, str]:
        """Where each of those brokers can be reached, as it says itself."""
        brokers = self._admin._manager.cluster.brokers()  # noqa: SLF001
        return {broker.node_id: f"{broker.host}:{broker.port}" for broker in brokers}

    def send(self, request: Any, *, to: int | None = None) -> Any:
        """
        Send a request to broker `to`, or to any; raises ClusterUnreachable or BrokerRefused.

        A request that any broker can answer fails only if none does: a silent broker leaves time
        for another one, and is the last to be tried the next time.
        """
        known = sorted(self.broker_ids, key=self._silent.__contains__)
        # Without a broker, the error of the client has the reason.
        places: list[int | None] = [to] if to is not None else [*known] or [None]
        give_up_at = time.monotonic() + self.cluster.timeout_s
        for left, place in zip(range(len(places), 0, -1), places, strict=True):
            left_s = give_up_at - time.monotonic()
            timeout_s = left_s if left == 1 else min(NEXT_SERVER_AFTER_S, left_s / left)
            try:
                return self._admin._manager.run(self._answer, request, place, timeout_s)  # noqa: SLF001
            except (kafka.errors.KafkaError, OSError) as exc:
                error = _request_error(self.cluster, request, exc)
                if left == 1 or not isinstance(error, ClusterUnreachable):
                    raise error from exc
        raise AssertionError

    def send_each(
        self, asks: Mapping[int, Iterable[TaggedRequest]], *, at_once: int = AT_ONCE
    ) -> Iterator[Response]:
        """
        Send each broker its sequence of requests; yield the answers as they come.

        Brokers work side by side. A broker has at most the next request waiting, so a large read
        does not flood it; of small ones more may wait (`at_once`). A request that failed is
        answered with the error; once a broker has not answered, the rest of its sequence is not
        sent. A sequence may be made while it is read, by a thread of the client.
        """
        answers = _Answers()
        for node_id, sequence in asks.items():
            remaining = iter(sequence)
            for _ in range(at_once):
                self._admin._manager.call_soon(self._ask_in_turn, node_id, remaining, answers)  # noqa: SLF001
        running = at_once * len(asks)
        while running:
            answer = answers.come.get()
            if isinstance(answer, Exception):
                raise answer
            if answer is None:
                running -= 1
            else:
                yield answer

    async def _ask_in_turn(
        self, node_id: int, sequence: Iterator[TaggedRequest], answers: _Answers
    ) -> None:
        try:
            for about, request in sequence:
                is_sent, response = node_id not in answers.silent, answers.silent.get(node_id)
                if is_sent:
                    response = await self._answer_or_error(request, node_id, answers)
                answers.come.put(Response(node_id, about, response, is_sent))
        except Exception as exc:  # noqa: BLE001 - a request could not be built: raised where it is read
            answers.come.put(exc)
        else:
            answers.come.put(None)

    async def _answer_or_error(self, request: Any, node_id: int, answers: _Answers) -> Any:
        try:
            return await self._answer(request, node_id)
        except Exception as exc:  # noqa: BLE001 - without an answer we would wait for ever
            error = _request_error(self.cluster, request, exc)
            if isinstance(exc, NO_ANSWER):
                answers.silent[node_id] = error
            return error

    def send_ahead(self, request: Any, *, to: int, timeout_s: float | None = None) -> Future[Any]:
        """
        Send a broker a request, also if it was silent before, and do not wait for the answer.

        A member must not miss a heartbeat. The future raises ClusterUnreachable and BrokerRefused.
        """
        answer: Future[Any] = Future()

        async def ask() -> None:
            try:
                answer.set_result(await self._ask(request, to, timeout_s))
            except Exception as exc:  # noqa: BLE001 - without an answer we would wait for ever
                answer.set_exception(_request_error(self.cluster, request, exc))

        self._admin._manager.call_soon(ask)  # noqa: SLF001
        return answer

    async def _answer(
        self, request: Any, node_id: int | None, timeout_s: float | None = None
    ) -> Any:
        limit_s = self.cluster.timeout_s
        timeout_s = limit_s if timeout_s is None else timeout_s
        # Else each of the many requests of a command would wait for the same broker.
        if time.monotonic() < self._silent.get(node_id, 0):
            raise kafka.errors.RequestTimedOutError
        try:
            answer = await self._ask(request, node_id, timeout_s)
        except TIMEOUTS:
            # After less than the full time, the broker may be tried again at once.
            until = time.monotonic() + limit_s if timeout_s >= limit_s else 0
            self._silent[node_id] = max(until, self._silent.get(node_id, 0))
            raise
        self._silent.pop(node_id, None)
        return answer

    def is_silent(self, node_id: int) -> bool:
        """Return whether a broker has not answered in time, and is skipped for now."""
        return time.monotonic() < self._silent.get(node_id, 0)

    async def _ask(self, request: Any, node_id: int | None, timeout_s: float | None = None) -> Any:
        timeout_s = self.cluster.timeout_s if timeout_s is None else timeout_s
        return await self._admin._manager.send(  # noqa: SLF001
            request, node_id=node_id, request_timeout_ms=round(timeout_s * 1000)
        )


def wait_for(answers: Collection[Future[Any]], meanwhile: Callable[[], None]) -> None:
    """
    Wait for answers; raises the first error among them.

    `meanwhile` is called now and then; what it raises ends the wait.
    """
    left = set(answers)
    while left:
        come, left = wait(left, LOOK_UP_EVERY_S, FIRST_EXCEPTION)
        for answer in come:
            answer.result()
        if left:
            meanwhile()


def _connect_error(cluster: Cluster, exc: _NoServerAnswered) -> ToolkitError:
    found = why_not_connected(cluster, exc.failures)
    if found.refused:
        return BrokerRefused(f"connecting to cluster {cluster.name}: {found.why}", hint=found.hint)
    return ClusterUnreachable(
        f"connecting to cluster {cluster.name} at {cluster.bootstrap_servers}: {found.why}",
        hint=found.hint,
    )


def _request_error(cluster: Cluster, request: Any, exc: Exception) -> ToolkitError:
    doing = f"{type(request).__name__.removesuffix('Request')} on cluster {cluster.name}"
    if isinstance(exc, kafka.errors.UnsupportedVersionError):
        return BrokerRefused(f"{doing}: not supported by this broker version")
    # The client's own time-out is a kind of broker error, although no broker has answered.
    if isinstance(exc, TIMEOUTS):
        return ClusterUnreachable(
            f"{doing}: no answer within {cluster.timeout_s:g} s", hint=check_silent(cluster)
        )
    if found := explain(cluster, exc):
        kind = BrokerRefused if found.refused else ClusterUnreachable
        return kind(f"{doing}: {found.why}", hint=found.hint)
    if isinstance(exc, kafka.errors.BrokerResponseError):
        return BrokerRefused(f"{doing}: {exc}")
    # The client's errors begin with their name themselves.
    why = str(exc) if isinstance(exc, KafkaError) else f"{type(exc).__name__}: {exc}"
    why = "no connection" if isinstance(exc, kafka.errors.NodeNotReadyError) else why
    return ClusterUnreachable(f"{doing}: no answer ({why})", hint="check that every broker is up")


class _NoServerAnswered(Exception):
    """No bootstrap server could be used; `failures` has the error of each that was tried."""

    def __init__(self, failures: Mapping[Server, Exception]) -> None:
        super().__init__(", ".join(f"{host}:{port}" for host, port in failures))
        self.failures = failures


def _open_client(settings: Mapping[str, Any], *, timeout_s: float) -> KafkaAdminClient:
    """
    Return a client that is connected; `timeout_s` is for all servers together.

    Raises _NoServerAnswered, OSError and ValueError for unusable settings.
    """
    made: list[KafkaNetClient] = []

    def net_client(**config: Any) -> KafkaNetClient:
        net = NetworkSelector(**config)
        connections = TimedConnections(net, timeout_s=timeout_s, **config)
        made.append(KafkaNetClient(net, connections, **config))
        return made[-1]

    try:
        return KafkaAdminClient(
            **settings,
            kafka_client=net_client,
            request_timeout_ms=round(timeout_s * 1000),
            bootstrap_timeout_ms=round(timeout_s * 1000),
            reconnect_backoff_max_ms=1000,
        )
    except BaseException as exc:
        # A client that cannot connect leaves its thread and sockets open.
        for client in made:
            client.close()
        if isinstance(exc, KafkaError) and made:
            raise _NoServerAnswered(made[-1]._manager.failures) from exc  # noqa: SLF001 - our class
        raise
