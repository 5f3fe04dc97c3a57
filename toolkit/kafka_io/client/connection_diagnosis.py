"""Explain why a cluster cannot be reached: no listener, TLS or login mismatch, not Kafka."""

from __future__ import annotations

import logging
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from toolkit.kafka_io.client.client_settings import bootstrap_servers, bulk_settings
from toolkit.model import Cluster

PROBE_TIMEOUT_S = 1.5
LOGIN_TIMEOUT_S = 2.0


def why_login_refused(cluster: Cluster) -> str:
    """
    Return what a broker answers to our login; "" where it does not refuse it, or there is none.

    librdkafka is asked: a broker hangs up right after this answer, and the other client throws away
    what comes together with the end of a connection.
    """
    if not cluster.settings.get("security.protocol", "").startswith("SASL"):
        return ""
    said: list[str] = []

    def on_error(error: KafkaError) -> None:
        if error.code() == KafkaError._AUTHENTICATION:  # noqa: SLF001 - its public name
            said.append(error.str())

    try:
        settings: dict[str, Any] = {**bulk_settings(cluster), "error_cb": on_error}
        client = AdminClient(settings, logger=logging.getLogger("librdkafka"))
        give_up_at = time.monotonic() + LOGIN_TIMEOUT_S
        while not said and time.monotonic() < give_up_at:
            client.poll(0.1)
    except KafkaException:
        return ""
    return said[0] if said else ""


def why_unreachable(cluster: Cluster) -> tuple[str, str]:
    """Return the reason, of each bootstrap server, and what to try, after knocking once."""
    servers = bootstrap_servers(cluster)
    with ThreadPoolExecutor(len(servers)) as together:
        found = list(together.map(partial(_why_unreachable, cluster), servers))
    if len(found) == 1:
        return found[0]
    reasons = (
        f"{host}:{port}: {why}" for (host, port), (why, _) in zip(servers, found, strict=True)
    )
    return "; ".join(reasons), "; ".join(dict.fromkeys(hint for _, hint in found))


def _why_unreachable(cluster: Cluster, server: tuple[str, int]) -> tuple[str, str]:
    host, port = server
    try:
        with socket.create_connection((host, port), timeout=PROBE_TIMEOUT_S):
            pass
    except (socket.gaierror, UnicodeError):  # the latter where it could not even be asked for
        return f"unknown host name {host!r}", "fix bootstrap.servers in the fleet file"
    except OSError as exc:
        reason = exc.strerror or str(exc) or type(exc).__name__
        return f"cannot connect ({reason})", "check the address, and that the broker is up"
    uses_tls = cluster.settings.get("security.protocol", "PLAINTEXT").upper().endswith("SSL")
    speaks_tls = _speaks_tls(host, port)
    if speaks_tls and not uses_tls:
        return (
            "the listener expects TLS, but the client connected in plaintext",
            "set security.protocol to SSL or SASL_SSL in the fleet file",
        )
    if uses_tls and not speaks_tls:
        return (
            "the listener does not use TLS",
            "set security.protocol to PLAINTEXT or SASL_PLAINTEXT, or use the TLS port",
        )
    return (
        "the port is open, but it did not respond like a Kafka broker",
        "check the port, security.protocol and certificates",
    )


def _speaks_tls(host: str, port: int) -> bool:
    context = ssl.create_default_context()
    # Only the question "is this TLS" is asked; nothing is sent over the connection.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), timeout=PROBE_TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return True
    except ssl.SSLError as exc:
        # A TLS server that wants a client certificate says so in a TLS alert.
        return "ALERT" in str(exc).upper()
    except OSError:
        return False
