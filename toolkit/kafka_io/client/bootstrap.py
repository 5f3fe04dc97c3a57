"""
Open a client of a cluster by any of its bootstrap servers.

The client itself takes one at random and gives it all the time there is: a server that is down or
hangs then looks like a cluster that is down.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaConnectionError, KafkaError
from kafka.net.compat import KafkaNetClient

from toolkit.kafka_io.client.client_settings import bootstrap_servers
from toolkit.kafka_io.client.connection_diagnosis import why_login_refused
from toolkit.model import Cluster

KNOCK_S = 1.5


def open_client(
    cluster: Cluster, settings: Mapping[str, Any], *, timeout_s: float
) -> KafkaAdminClient:
    """
    Return a client that is connected; `timeout_s` is for each attempt.

    Raises KafkaError where no server answers, OSError and ValueError for unusable settings.
    """
    servers: list[str] = settings["bootstrap_servers"]
    if len(servers) == 1:
        return _open(settings, servers, timeout_s)
    there = _that_accept(cluster, servers)
    if not there:
        raise KafkaConnectionError("no bootstrap server accepts connections")
    try:
        return _open(settings, there, timeout_s)
    except KafkaError:
        # More attempts to log in with a wrong password could lock the account.
        if len(there) == 1 or why_login_refused(cluster):
            raise
    for server in there[:-1]:
        try:
            return _open(settings, [server], timeout_s)
        except KafkaError:
            continue
    return _open(settings, there[-1:], timeout_s)


def _that_accept(cluster: Cluster, servers: Sequence[str]) -> list[str]:
    """Return the servers that accept a connection; all are asked at the same time."""
    with ThreadPoolExecutor(len(servers)) as together:
        found = together.map(_accepts, bootstrap_servers(cluster))
        return [server for server, accepts in zip(servers, found, strict=True) if accepts]


def _accepts(address: tuple[str, int]) -> bool:
    try:
        with socket.create_connection(address, timeout=KNOCK_S):
            return True
    except (OSError, UnicodeError):  # the latter for a name that cannot be looked up
        return False


def _open(settings: Mapping[str, Any], servers: list[str], timeout_s: float) -> KafkaAdminClient:
    """Make the client; one that cannot connect leaves its thread and sockets open, so we do it."""
    made: list[KafkaNetClient] = []

    def net_client(**config: Any) -> KafkaNetClient:
        made.append(KafkaNetClient(**config))
        return made[-1]

    try:
        return KafkaAdminClient(
            **{**settings, "bootstrap_servers": servers},
            kafka_client=net_client,
            bootstrap_timeout_ms=round(timeout_s * 1000),
            reconnect_backoff_max_ms=1000,
        )
    except BaseException:
        for client in made:
            client.close()
        raise
