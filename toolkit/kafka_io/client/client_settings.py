"""
Connection settings in the names of the fleet file, turned into what each client wants.

The fleet file uses librdkafka's names. Secrets are references (`${env:NAME}`, `${file:PATH}`) that
are resolved here, at connect time, so that no record, log line or Spark plan ever holds one.
"""

from __future__ import annotations

import os
import re
from typing import Any

from toolkit.errors import FleetFileError
from toolkit.model import Cluster, secrets
from toolkit.model.secrets import REFERENCE, SECRET_SETTINGS

# fleet file and librdkafka -> kafka-python
ADMIN_NAMES = {
    "client.id": "client_id",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
}

PROTOCOLS = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})
ADDRESS = re.compile(r"(\[[0-9A-Fa-f:]+\]|[^\s:\[\]/]+):([0-9]{1,5})")
LAST_PORT = 65_535


def admin_settings(cluster: Cluster) -> dict[str, Any]:
    """
    Arguments for kafka-python's admin client; raises FleetFileError for what cannot be used.

    The client would take a protocol that it does not know for plain text, so it is refused here.
    """
    resolved = _resolved(cluster)
    protocol = resolved.get("security.protocol", "PLAINTEXT")
    if protocol not in PROTOCOLS:
        raise FleetFileError(
            f"cluster {cluster.name}: security.protocol {protocol!r} is unknown",
            hint=f"use one of {', '.join(sorted(PROTOCOLS))}",
        )
    arguments = {ADMIN_NAMES[name]: value for name, value in resolved.items()}
    servers = [
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        for host, port in bootstrap_servers(cluster)
    ]
    return {"client_id": "offsetbook", **arguments, "bootstrap_servers": servers}


def bulk_settings(cluster: Cluster) -> dict[str, Any]:
    """Configuration for librdkafka; raises FleetFileError for a dangling reference."""
    return {
        "client.id": "offsetbook",
        **_resolved(cluster),
        "bootstrap.servers": cluster.bootstrap_servers,
    }


def bootstrap_servers(cluster: Cluster) -> list[tuple[str, int]]:
    """Return the hosts and ports to knock at; raises FleetFileError for what is not host:port."""
    found = []
    for server in cluster.bootstrap_servers.split(","):
        parts = ADDRESS.fullmatch(server.strip())
        if not parts or not 0 < int(parts[2]) <= LAST_PORT:
            raise FleetFileError(
                f"cluster {cluster.name}: bootstrap.servers has {server.strip()!r}, "
                "which is not host:port",
                hint="fix it in the fleet file",
            )
        found.append((parts[1].strip("[]"), int(parts[2])))
    return found


def _resolved(cluster: Cluster) -> dict[str, str]:
    resolved = {}
    for name, value in cluster.settings.items():
        if name not in ADMIN_NAMES:
            raise FleetFileError(
                f"cluster {cluster.name}: unknown setting {name!r}",
                hint=f"use one of {', '.join(sorted(ADMIN_NAMES))}",
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
    return resolved


def _look_up(cluster: Cluster, name: str, value: str) -> str:
    try:
        return secrets.resolved(value)
    except LookupError as exc:
        raise FleetFileError(
            f"cluster {cluster.name}: {name} refers to {exc}",
            hint="provide it, or fix the reference in the fleet file",
        ) from exc


def _check_readable(cluster: Cluster, name: str, path: str) -> None:
    if not os.access(path, os.R_OK):
        raise FleetFileError(
            f"cluster {cluster.name}: {name} names {path}, which cannot be read",
            hint="fix the path in the fleet file",
        )
