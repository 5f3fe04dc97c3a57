"""
The client's connections under one deadline: connect, TLS handshake and login.

The client itself waits for a TLS handshake without limit, repeats a login that was refused, and
loses a broker's last answer when it comes together with the end of the connection.
"""

from __future__ import annotations

import ssl
import time
from typing import Any

from kafka.errors import (
    BrokerResponseError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    RequestTimedOutError,
    SaslAuthenticationFailedError,
)
from kafka.future import Future
from kafka.net.inet import KafkaNetSocket
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.metadata import MetadataRequest

# Of several servers or addresses, one that hangs gets no more time; the last gets the rest.
NEXT_SERVER_AFTER_S = 4.0
# A broker that is just starting refuses connections for a moment.
REFUSED_FOR_S = 2.0
TRY_AGAIN_S = 0.2
TIMER_S = 0.01

Server = tuple[str, int]
Read = tuple[bytes, Exception | None]


class ThrottledByQuota(KafkaConnectionError):  # type: ignore[misc]  # as below
    """The broker wants no request before the deadline (KIP-124, KIP-219)."""


class LoginRequired(KafkaConnectionError):  # type: ignore[misc]  # it ships no types
    """The broker ended the connection at the first request that needs a login."""


def _last_words(read: Read) -> Read:
    """Return what came before the end of the connection; the end is found by the next read."""
    received, error = read
    return received, None if received else error


class ClosedIfRefused(KafkaNetSocket):  # type: ignore[misc]  # as above
    """Sockets that are closed if they cannot connect: the client leaves them open."""

    SCHEMES = ()

    async def sock_connect(
        self, net: Any, sock: Any, sockaddr: Any, timeout_at: float | None = None
    ) -> Any:
        """Connect a socket, or close it."""
        try:
            return await super().sock_connect(net, sock, sockaddr, timeout_at=timeout_at)
        except BaseException:
            sock.close()
            raise


class PlainTransport(KafkaTCPTransport):  # type: ignore[misc]  # as above
    """A connection in plaintext."""

    def _sock_recv(self) -> Read:
        return _last_words(super()._sock_recv())


class TlsTransport(KafkaSSLTransport):  # type: ignore[misc]  # as above
    """A TLS connection whose handshake has a deadline."""

    def _sock_recv(self) -> Read:
        return _last_words(super()._sock_recv())

    async def shake_hands(self, timeout_at: float | None) -> None:
        """Complete the handshake; raises SSLError, OSError and KafkaTimeoutError."""
        while True:
            try:
                self._sock.do_handshake()
            except ssl.SSLWantReadError:
                await self._net.wait_read(self._sock, timeout_at=timeout_at)
            except ssl.SSLWantWriteError:
                await self._net.wait_write(self._sock, timeout_at=timeout_at)
            else:
                return


class TimedConnections(KafkaConnectionManager):  # type: ignore[misc]  # as above
    """The connections of one client; `failures` has the last error of each bootstrap server."""

    def __init__(self, net: NetworkSelector, *, timeout_s: float, **config: Any) -> None:
        """`timeout_s`: for each connection until it can be used, and for each request."""
        timeout_ms = round(timeout_s * 1000)
        setup = ("socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms")
        super().__init__(net, **{**config, **dict.fromkeys(setup, timeout_ms)})
        self.failures: dict[Server, Exception] = {}
        self._tried: dict[Any, Any] = {}  # of each broker the address that was last connected to
        self._silent_addresses: set[Any] = set()  # their turn comes last

    def send(
        self, request: Any, node_id: int | None = None, request_timeout_ms: float | None = None
    ) -> Any:
        """
        Send a request; while the broker throttles this client, its turn is waited for.

        The brokers are read again for one that is not known: it has joined since they were read.
        """
        node_id = self.least_loaded_node() if node_id is None else node_id
        if node_id is None:  # every broker throttles
            node_id = min(self._conns, key=self._throttled_s, default=None)
        timeout_ms = request_timeout_ms or self.config["request_timeout_ms"]
        answer = Future()
        if self._throttled_s(node_id) or self._is_unknown(node_id):
            self._net.call_soon(lambda: self._send_in_turn(request, node_id, timeout_ms, answer))
        else:
            self._send_now(request, node_id, timeout_ms, answer)
        return answer

    def _send_now(self, request: Any, node_id: Any, timeout_ms: float, answer: Any) -> None:
        sent = super().send(request, node_id=node_id, request_timeout_ms=timeout_ms)
        connection = self._conns.get(node_id)

        def fail(exc: Exception) -> None:
            is_late = isinstance(exc, RequestTimedOutError | KafkaTimeoutError)
            # It may have been throttled by the answer to the first request, before this was sent.
            is_throttled = is_late and connection and _is_throttled(connection)
            answer.failure(ThrottledByQuota(str(exc)) if is_throttled else exc)

        def succeed(response: Any) -> None:
            if isinstance(request, MetadataRequest) and response.brokers:
                # The client itself reads them every 5 minutes.
                self.cluster._brokers = {one.node_id: one for one in response.brokers}  # noqa: SLF001
            answer.success(response)

        sent.add_callback(succeed)
        sent.add_errback(fail)

    async def _send_in_turn(
        self, request: Any, node_id: Any, timeout_ms: float, answer: Any
    ) -> None:
        until = time.monotonic() + timeout_ms / 1000
        try:
            if self._is_unknown(node_id):
                refreshed = self.call_soon(self.cluster.refresh_metadata)
                await self.wait_for(refreshed, timeout_ms)
            await self._wait_for_turn(node_id, until)
            self._send_now(request, node_id, (until - time.monotonic()) * 1000, answer)
        except Exception as exc:  # noqa: BLE001 - without an answer one would wait for ever
            answer.failure(exc)

    def _is_unknown(self, node_id: Any) -> bool:
        is_known = node_id in self._conns or self.cluster.broker_metadata(node_id)
        return node_id is not None and not is_known

    async def _wait_for_turn(self, node_id: Any, until: float) -> None:
        while wait_s := self._throttled_s(node_id):
            if time.monotonic() + wait_s > until:
                raise ThrottledByQuota(f"for another {wait_s:.1f} s")
            await self._net.sleep(wait_s)

    def _throttled_s(self, node_id: Any) -> float:
        """Return for how long a broker wants no request; the client's own timer ends it."""
        connection = self._conns.get(node_id)
        if connection is None or not _is_throttled(connection):
            return 0
        until: float = connection._throttle_time  # noqa: SLF001 - it has no public name
        return max(TIMER_S, until - time.monotonic())

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        sock = await self._open_socket(node, timeout_at)
        if not self.ssl_enabled:
            return PlainTransport(self._net, sock, host=node.host)
        context = self.config["ssl_context"]
        transport = TlsTransport(self._net, sock, host=node.host, ssl_context=context)
        try:
            await transport.shake_hands(timeout_at)
        except KafkaTimeoutError:
            transport.close()
            raise KafkaTimeoutError("no answer in the TLS handshake") from None
        except OSError as exc:  # SSLError is one
            transport.close()
            raise KafkaConnectionError(f"TLS handshake: {exc}") from exc
        return transport

    async def _open_socket(self, node: Any, timeout_at: float | None) -> Any:
        """Connect to the addresses of a host in sequence, each within its share of the time."""
        error = KafkaConnectionError("the host name is unknown")
        addresses = self._addresses(node)
        for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            self._tried[node.node_id] = address
            until = timeout_at and _share(timeout_at, left)
            try:
                return await ClosedIfRefused().connect(
                    self._net, address, self.config["socket_options"], timeout_at=until
                )
            except (KafkaError, OSError) as exc:
                self._silent_addresses.add(address)
                error = exc
        raise error

    def _addresses(self, node: Any) -> list[Any]:
        try:
            found = ClosedIfRefused().dns_lookup(node.host, node.port)
        except UnicodeError:  # it is no host name
            return []
        return sorted(dict.fromkeys(found), key=self._silent_addresses.__contains__)

    async def _connect(self, node: Any, conn: Any, **options: Any) -> None:
        await super()._connect(node, conn, **options)
        if conn.init_future.failed() and is_login_refused(conn.init_future.exception):
            # Later requests to this broker fail with it, and do not log in again.
            self._auth_failures[node.node_id] = conn.init_future.exception

    async def _do_bootstrap(self, deadline: float) -> bool:
        """Read the cluster's brokers from the first bootstrap server that answers."""
        refused_until = min(deadline, time.monotonic() + REFUSED_FOR_S)
        servers = self.cluster.bootstrap_brokers()
        while True:
            # A server may be silent at one of its addresses only.
            turns = [server for server in servers for _ in self._addresses(server) or [None]]
            for left, server in zip(range(len(turns), 0, -1), turns, strict=True):
                try:
                    await self._ask_for_brokers(server, _share(deadline, left))
                except (KafkaError, OSError) as exc:
                    self.failures[server.host, server.port] = exc
                    self._silent_addresses.add(self._tried.get(server.node_id))
                    # More attempts with a wrong password could lock the account.
                    if is_login_refused(exc):
                        raise
                else:
                    self.cluster.start_refresh_loop()
                    return True
            is_starting = all(map(_is_refused, self.failures.values()))
            if not is_starting or time.monotonic() > refused_until:
                raise KafkaConnectionError("no bootstrap server answers")
            await self._net.sleep(TRY_AGAIN_S)

    async def _ask_for_brokers(self, server: Any, until: float) -> None:
        self.reset_backoff(server.node_id)
        connection = self.get_connection(
            server.node_id,
            timeout_ms=(until - time.monotonic()) * 1000,
            pop_on_close=False,
            refresh_metadata_on_err=False,
            reset_backoff_on_connect=False,
        )
        goes_on = False
        try:
            await connection
            ask = self.call_soon(self.cluster.refresh_metadata, server.node_id)
            await self.wait_for(ask, max(0, until - time.monotonic()) * 1000)
            goes_on = self._goes_on(connection, server)
        except KafkaConnectionError as exc:
            if connection.init_future.succeeded():
                raise LoginRequired("connection closed") from exc
            raise
        finally:
            self._conns.pop(server.node_id, None)
            if not goes_on:
                connection.close()
        if not self.cluster.brokers():
            raise KafkaConnectionError("no broker is listed as alive")

    def _goes_on(self, connection: Any, server: Any) -> bool:
        """Use the connection to a bootstrap server for the broker that is listed at its address."""
        address = server.host, server.port
        found = (b.node_id for b in self.cluster.brokers() if (b.host, b.port) == address)
        node_id = next(found, None)
        if node_id is None or node_id in self._conns or not connection.connected:
            return False
        connection.node_id = node_id
        connection.close_future.add_both(lambda _: self._conns.pop(node_id, None))
        connection.close_future.add_errback(lambda _: self.cluster.request_update())
        self._conns[node_id] = connection
        return True


def _share(deadline: float, left: int) -> float:
    """Return until when the first of several may try, so that time is left for the others."""
    now = time.monotonic()
    return deadline if left == 1 else now + min(NEXT_SERVER_AFTER_S, (deadline - now) / left)


def is_login_refused(exc: BaseException) -> bool:
    """Whether a broker has answered a login, and not with yes."""
    silent = isinstance(exc, RequestTimedOutError)
    return isinstance(exc, SaslAuthenticationFailedError | BrokerResponseError) and not silent


def _is_throttled(connection: Any) -> bool:
    return "throttle" in connection.paused


def _is_refused(exc: Exception) -> bool:
    return "ECONNREFUSED" in str(exc)
