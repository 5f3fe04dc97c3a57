"""
A listener with TLS, passwords (SCRAM) and ACLs, for one broker of the sandbox.

The listener in plaintext remains, on loopback: the applications and the sandbox itself use it, and
may do everything there. Certificates are made by the `openssl` command.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from toolkit.errors import PrerequisiteMissing, SandboxFailed, UsageError
from toolkit.sandbox.broker import find_broker, free_ports, reserve_ports
from toolkit.sandbox.roles import password_of

HOST = "127.0.0.1"
VALID_DAYS = 365
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
                hint="use another --state-dir, or --fresh to seed the clusters again",
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


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its key, both in PEM, and one file with both."""

    certificate: Path
    key: Path
    both: Path


@dataclass(frozen=True, slots=True)
class Authority:
    """An authority whose files are in a directory."""

    directory: Path

    @property
    def certificate(self) -> Path:
        """What clients take as `ssl.ca.location`."""
        return self.directory / "ca.pem"

    @property
    def _key(self) -> Path:
        return self.directory / "ca.key"

    def create(self) -> None:
        """Create the authority unless it is there; raises PrerequisiteMissing, SandboxFailed."""
        if self.certificate.exists():
            return
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        subject = ("-subj", "/CN=offsetbook sandbox CA", "-days", str(VALID_DAYS))
        made = ("-keyout", str(self._key), "-out", str(self.certificate))
        _openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject, *made)

    def issue(self, name: str, *, host: str = HOST, days: int = VALID_DAYS) -> Certificate:
        """Return a new certificate for a host (negative `days`: expired), or the one there is."""
        made = Certificate(*(self.directory / f"{name}.{end}" for end in ("pem", "key", "both")))
        if made.both.exists():
            return made
        request = self.directory / f"{name}.csr"
        extensions = self.directory / f"{name}.ext"
        kind = "IP" if host == HOST else "DNS"
        extensions.write_text(f"subjectAltName={kind}:{host}\n", "utf-8")
        new = ("-keyout", str(made.key), "-out", str(request))
        _openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", *new)
        signed = ("-CA", str(self.certificate), "-CAkey", str(self._key), "-CAcreateserial")
        files = ("-in", str(request), "-out", str(made.certificate), "-extfile", str(extensions))
        _openssl("x509", "-req", "-days", str(days), *signed, *files)
        made.both.write_text(made.key.read_text("ascii") + made.certificate.read_text("ascii"))
        return made


def _openssl(*arguments: str) -> None:
    command = shutil.which("openssl")
    if not command:
        raise PrerequisiteMissing(
            "the command openssl, which makes certificates, is not installed",
            hint="install openssl, or start the sandbox without --secure",
        )
    try:
        subprocess.run(
            [command, *arguments], check=True, capture_output=True, stdin=subprocess.DEVNULL
        )
    except subprocess.CalledProcessError as exc:
        output = exc.stderr.decode(errors="replace")
        raise SandboxFailed(f"openssl {arguments[0]} failed: {output}") from exc
