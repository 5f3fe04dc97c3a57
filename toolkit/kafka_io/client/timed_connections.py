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
from kafka.net.inet import KafkaNetSocket
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

# Of several bootstrap servers one that hangs gets no more time than this; the last gets the rest.
NEXT_SERVER_AFTER_S = 4.0
# A broker that is just starting refuses connections for a moment.
REFUSED_FOR_S = 2.0
TRY_AGAIN_S = 0.2

Server = tuple[str, int]
Read = tuple[bytes, Exception | None]


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
        sockets = ClosedIfRefused()
        error = KafkaConnectionError("the host name is unknown")
        for address in sockets.dns_lookup(node.host, node.port):
            try:
                return await sockets.connect(
                    self._net, address, self.config["socket_options"], timeout_at=timeout_at
                )
            except (KafkaError, OSError) as exc:
                error = exc
        raise error

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
            for left, server in zip(range(len(servers) - 1, -1, -1), servers, strict=True):
                until = min(deadline, time.monotonic() + NEXT_SERVER_AFTER_S) if left else deadline
                try:
                    await self._ask_for_brokers(server, until)
                except (KafkaError, OSError, UnicodeError) as exc:  # the last: no host name
                    self.failures[server.host, server.port] = exc
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
        try:
            await connection
            ask = self.call_soon(self.cluster.refresh_metadata, server.node_id)
            await self.wait_for(ask, max(0, until - time.monotonic()) * 1000)
        except KafkaConnectionError as exc:
            if connection.init_future.succeeded():
                raise LoginRequired("connection closed") from exc
            raise
        finally:
            self._conns.pop(server.node_id, connection).close()
        if not self.cluster.brokers():
            raise KafkaConnectionError("no broker is listed as alive")


def is_login_refused(exc: BaseException) -> bool:
    """Whether a broker has answered a login, and not with yes."""
    silent = isinstance(exc, RequestTimedOutError)
    return isinstance(exc, SaslAuthenticationFailedError | BrokerResponseError) and not silent


def _is_refused(exc: Exception) -> bool:
    return "ECONNREFUSED" in str(exc)
