"""
A listener with TLS, passwords (SCRAM) and ACLs, for one broker of the sandbox.

The listener in plaintext remains, on loopback: the applications and the sandbox itself use it, and
may do everything there.
"""

from __future__ import annotations

from pathlib import Path

from toolkit.errors import UsageError
from toolkit.sandbox.broker import find_broker, free_ports, reserve_ports
from toolkit.sandbox.certificates import HOST, Authority
from toolkit.sandbox.roles import password_of

PORT_FILE = "secure.port"
PROPERTIES = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "listener.name.secure.sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "listener.name.secure.scram-sha-512.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
    "listener.name.secure.ssl.keystore.type": "PEM",
}


def is_secured(directory: Path) -> bool:
    """Whether the broker in a directory has, or will have, a secured listener."""
    return (directory / PORT_FILE).exists()


def secure(directory: Path, version: str) -> dict[str, str]:
    """
    Choose the ports of a new broker, make its certificate, and return its properties.

    A broker that was secured before keeps its ports. Raises UsageError for one that was not, and
    what `Authority.create` raises.
    """
    if not is_secured(directory):
        if find_broker(directory):
            raise UsageError(
                f"{directory} has a cluster without TLS and ACLs",
                hint="use another --state-dir, or --fresh to seed the clusters anew",
            )
        directory.mkdir(parents=True, exist_ok=True)
        plain, controller, port = free_ports(3)
        reserve_ports(directory, (plain, controller), version)
        (directory / PORT_FILE).write_text(str(port), "ascii")
    broker = find_broker(directory)
    assert broker  # noqa: S101 -- its ports are reserved
    authority = Authority(directory / "certificates")
    authority.create()
    listeners = {
        "PLAINTEXT": broker.port,
        "CONTROLLER": broker.controller_port,
        "SECURE": _port(directory),
    }
    return {
        **PROPERTIES,
        "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in listeners.items()),
        "listener.name.secure.ssl.keystore.location": str(authority.issue("broker").both),
    }


def role_settings(directory: Path, role: str) -> dict[str, str]:
    """Return how a role connects to the broker in a directory, as settings of the fleet file."""
    passwords = directory / "passwords"
    password_of(role, passwords)
    return {
        "bootstrap.servers": f"{HOST}:{_port(directory)}",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": role,
        "sasl.password": f"${{file:{passwords / role}}}",
        "ssl.ca.location": str(Authority(directory / "certificates").certificate),
    }


def _port(directory: Path) -> int:
    return int((directory / PORT_FILE).read_text("ascii"))
