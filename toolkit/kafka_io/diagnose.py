"""Why a cluster did not answer: nothing listens, TLS is expected, or it is not a Kafka broker."""

from __future__ import annotations

import socket
import ssl

from toolkit.model import Cluster

PROBE_TIMEOUT_S = 1.5


def why_unreachable(cluster: Cluster) -> tuple[str, str]:
    """Return the reason for the first bootstrap server and what to try, after knocking once."""
    server = cluster.bootstrap_servers.split(",", maxsplit=1)[0].strip()
    host, _, port = server.rpartition(":")
    if not host or not port.isdigit():
        return f"{server!r} is not host:port", "correct bootstrap.servers in the fleet file"
    try:
        with socket.create_connection((host, int(port)), timeout=PROBE_TIMEOUT_S):
            pass
    except socket.gaierror:
        return f"host name {host!r} is not known", "correct bootstrap.servers in the fleet file"
    except OSError as exc:
        reason = exc.strerror or str(exc) or type(exc).__name__
        return f"nobody listens there ({reason})", "check the address, and that the broker is up"
    uses_tls = cluster.settings.get("security.protocol", "PLAINTEXT").upper().endswith("SSL")
    speaks_tls = _speaks_tls(host, int(port))
    if speaks_tls and not uses_tls:
        return (
            "the listener expects TLS and was spoken to in plain text",
            "set security.protocol to SSL or SASL_SSL in the fleet file",
        )
    if uses_tls and not speaks_tls:
        return (
            "the listener does not speak TLS",
            "set security.protocol to PLAINTEXT or SASL_PLAINTEXT, or use the TLS port",
        )
    return (
        "something listens there but did not answer as a Kafka broker",
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
