"""A broker behind listeners for plain text, passwords and TLS."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from brokers import free_ports, remember_ports

from toolkit.model import Cluster
from toolkit.sandbox.broker import start_broker


class Secured(NamedTuple):
    """One broker behind three listeners."""

    plain: Cluster  # may do everything
    sasl: Cluster  # user "reader", who may do what no ACL denies
    tls: Cluster  # may do everything


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Return a broker with an authorizer and listeners for plain text, passwords and TLS."""
    directory = tmp_path_factory.mktemp("secured")
    certificate = _self_signed(directory)
    plain, controller, sasl, tls = free_ports(4)
    remember_ports(directory, plain, controller)
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    broker = start_broker(
        directory,
        properties={
            "listeners": f"PLAINTEXT://127.0.0.1:{plain},CONTROLLER://127.0.0.1:{controller},"
            f"PASSWORD://127.0.0.1:{sasl},TLS://127.0.0.1:{tls}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
            "PASSWORD:SASL_PLAINTEXT,TLS:SSL",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "true",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.password.plain.sasl.jaas.config": f'{login} user_reader="right";',
            "listener.name.tls.ssl.keystore.type": "PEM",
            "listener.name.tls.ssl.keystore.location": str(certificate),
        },
    )
    try:
        password = directory / "password"
        password.write_text("right\n")
        yield Secured(
            Cluster("secured", broker.address),
            Cluster(
                "secured",
                f"127.0.0.1:{sasl}",
                {
                    "security.protocol": "SASL_PLAINTEXT",
                    "sasl.mechanism": "PLAIN",
                    "sasl.username": "reader",
                    "sasl.password": f"${{file:{password}}}",
                },
            ),
            Cluster(
                "secured",
                f"127.0.0.1:{tls}",
                {"security.protocol": "SSL", "ssl.ca.location": str(directory / "certificate.pem")},
            ),
        )
    finally:
        broker.stop()


def _self_signed(directory: Path) -> Path:
    """Return a file with a new key and its certificate for 127.0.0.1."""
    openssl = shutil.which("openssl")
    if not openssl:
        pytest.skip("no openssl command to make a certificate with")
    key, certificate = directory / "key.pem", directory / "certificate.pem"
    subject = ("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")
    made = ("-keyout", str(key), "-out", str(certificate))
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject, *made],
        check=True,
        capture_output=True,
    )
    both = directory / "keystore.pem"
    both.write_text(key.read_text() + certificate.read_text())
    return both
