"""
Connection settings in the names of the fleet file, turned into what each client wants.

The fleet file uses librdkafka's names. Secrets are references (`${env:NAME}`, `${file:PATH}`) that
are resolved here, at connect time, so that no record, log line or Spark plan ever holds one.
"""

from __future__ import annotations

import os
from typing import Any

from toolkit.errors import FleetFileError, UsageError
from toolkit.kafka_io.client.login_settings import admin_login, bulk_login, check_login
from toolkit.kafka_io.client.tls_settings import tls_context
from toolkit.model import Cluster, secrets
from toolkit.model.connection_settings import (
    PROTOCOL,
    PROTOCOLS,
    SECRET_SETTINGS,
    SETTINGS,
    wrong_together,
)
from toolkit.model.secrets import REFERENCE
from toolkit.model.server_addresses import read_servers


def admin_settings(cluster: Cluster) -> dict[str, Any]:
    """
    Arguments for kafka-python's admin client; raises FleetFileError for what cannot be used.

    The client would take a protocol that it does not know for plain text, so it is refused here.
    """
    resolved = _resolved(cluster)
    return {
        "client_id": resolved.get("client.id", "offsetbook"),
        "security_protocol": resolved["security.protocol"],
        "bootstrap_servers": _servers(cluster, resolved),
        **({"ssl_context": tls_context(cluster, resolved)} if _uses_tls(resolved) else {}),
        **(admin_login(cluster, resolved) if _logs_in(resolved) else {}),
    }


def bulk_settings(cluster: Cluster) -> dict[str, Any]:
    """Configuration for librdkafka; raises FleetFileError for what cannot be used."""
    resolved = _resolved(cluster)
    tls = {}
    if _uses_tls(resolved):
        tls_context(cluster, resolved)  # its errors name the setting
        tls = {name: value for name, value in resolved.items() if name.startswith("ssl.")}
        certificate = tls.get("ssl.certificate.location")
        if certificate and "ssl.key.pem" not in tls:
            tls.setdefault("ssl.key.location", certificate)  # one file may have both
    timeout_ms = round(cluster.timeout_s * 1000)
    return {
        "client.id": resolved.get("client.id", "offsetbook"),
        "security.protocol": resolved["security.protocol"],
        "bootstrap.servers": ",".join(_servers(cluster, resolved)),
        "socket.timeout.ms": timeout_ms,
        # A quarter: each time librdkafka takes an address of the host by chance, also a silent one.
        "socket.connection.setup.timeout.ms": max(1000, timeout_ms // 4),
        **tls,
        **(bulk_login(cluster, resolved) if _logs_in(resolved) else {}),
    }


def _servers(cluster: Cluster, resolved: dict[str, str]) -> list[str]:
    try:
        return list(map(str, read_servers(cluster.bootstrap_servers, resolved[PROTOCOL])))
    except UsageError as exc:
        hint = f"write host:port; addresses are in {cluster.origin.settings} or in the command"
        raise FleetFileError(f"cluster {cluster.name}: {exc.problem}", hint=hint) from exc


def _uses_tls(resolved: dict[str, str]) -> bool:
    return resolved["security.protocol"].endswith("SSL")


def _logs_in(resolved: dict[str, str]) -> bool:
    return resolved["security.protocol"].startswith("SASL")


def _resolved(cluster: Cluster) -> dict[str, str]:
    """Return the settings with their secrets, checked as far as that is possible here."""
    resolved = {"security.protocol": "PLAINTEXT"}
    for name, value in cluster.settings.items():
        if name not in SETTINGS:
            raise FleetFileError(
                f"cluster {cluster.name}: unknown setting {name!r}",
                hint=f"use one of {', '.join(sorted(SETTINGS))}",
            )
        if name in SECRET_SETTINGS and not REFERENCE.fullmatch(value):
            raise FleetFileError(
                f"cluster {cluster.name}: {name} contains a plaintext secret",
                hint="use a reference: ${env:NAME} or ${file:/path}",
            )
        # Nothing else is looked up: an address could carry a secret to a stranger's server.
        resolved[name] = _look_up(cluster, name, value) if name in SECRET_SETTINGS else value
        if name.endswith(".location"):
            _check_readable(cluster, name, resolved[name])
    protocol = resolved["security.protocol"]
    if protocol not in PROTOCOLS:
        raise FleetFileError(
            f"cluster {cluster.name}: security.protocol {protocol!r} is unknown",
            hint=f"use one of {', '.join(sorted(PROTOCOLS))}",
        )
    if wrong := wrong_together(resolved):
        problem, hint = wrong
        raise FleetFileError(
            f"cluster {cluster.name}: {problem}", hint=f"in {cluster.origin.settings}, {hint}"
        )
    if _logs_in(resolved):
        check_login(cluster, resolved)
    return resolved


def _look_up(cluster: Cluster, name: str, value: str) -> str:
    try:
        found = secrets.resolved(value)
    except LookupError as exc:
        raise FleetFileError(
            f"cluster {cluster.name}: {name} refers to {exc}",
            hint=f"provide it, or fix the reference in {cluster.origin.settings}",
        ) from exc
    if not found:
        raise FleetFileError(
            f"cluster {cluster.name}: {name} refers to {value}, which is empty",
            hint=f"provide it, or fix the reference in {cluster.origin.settings}",
        )
    return found


def _check_readable(cluster: Cluster, name: str, path: str) -> None:
    if not os.access(path, os.R_OK):
        raise FleetFileError(
            f"cluster {cluster.name}: {name} names {path}, which cannot be read",
            hint=f"fix the path in {cluster.origin.settings}",
        )
