"""
Connection settings in the names of the fleet file, turned into what each client wants.

The fleet file uses librdkafka's names. Secrets are references (`${env:NAME}`, `${file:PATH}`) that
are resolved here, at connect time, so that no record, log line or Spark plan ever holds one.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from toolkit.errors import FleetFileError
from toolkit.model import Cluster

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

REFERENCE = re.compile(r"\$\{(env|file):([^}]+)\}")


def admin_settings(cluster: Cluster) -> dict[str, Any]:
    """Arguments for kafka-python's admin client; raises FleetFileError for a dangling reference."""
    resolved = _resolved(cluster)
    arguments = {ADMIN_NAMES[name]: value for name, value in resolved.items()}
    return {"client_id": "offsetbook", **arguments, "bootstrap_servers": _servers(cluster)}


def bulk_settings(cluster: Cluster) -> dict[str, Any]:
    """Configuration for librdkafka; raises FleetFileError for a dangling reference."""
    return {
        "client.id": "offsetbook",
        **_resolved(cluster),
        "bootstrap.servers": cluster.bootstrap_servers,
    }


def _servers(cluster: Cluster) -> list[str]:
    return [server.strip() for server in cluster.bootstrap_servers.split(",")]


def _resolved(cluster: Cluster) -> dict[str, str]:
    return {
        name: REFERENCE.sub(lambda match: _look_up(cluster, name, match), value)  # noqa: B023 - called at once
        for name, value in cluster.settings.items()
    }


def _look_up(cluster: Cluster, name: str, match: re.Match[str]) -> str:
    kind, where = match.groups()
    try:
        return os.environ[where] if kind == "env" else Path(where).read_text("utf-8").strip()
    except (KeyError, OSError) as exc:
        missing = "is not set" if kind == "env" else "cannot be read"
        raise FleetFileError(
            f"cluster {cluster.name}: {name} refers to {match.group()}, which {missing}",
            hint="provide it, or correct the reference in the fleet file",
        ) from exc
