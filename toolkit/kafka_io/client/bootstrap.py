"""Open a client of a cluster by any of its bootstrap servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError
from kafka.net.compat import KafkaNetClient
from kafka.net.selector import NetworkSelector

from toolkit.kafka_io.client.timed_connections import Server, TimedConnections


class NoServerAnswered(Exception):
    """No bootstrap server could be used; `failures` has the error of each that was tried."""

    def __init__(self, failures: Mapping[Server, Exception]) -> None:
        """Keep the errors."""
        super().__init__(", ".join(f"{host}:{port}" for host, port in failures))
        self.failures = failures


def open_client(settings: Mapping[str, Any], *, timeout_s: float) -> KafkaAdminClient:
    """
    Return a client that is connected; `timeout_s` is for all servers together.

    Raises NoServerAnswered, OSError and ValueError for unusable settings.
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
            raise NoServerAnswered(made[-1]._manager.failures) from exc  # noqa: SLF001 - ours
        raise
