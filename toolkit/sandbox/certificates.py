"""A certificate authority for brokers on loopback, by the `openssl` command."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from toolkit.errors import PrerequisiteMissing, SandboxFailed

HOST = "127.0.0.1"
VALID_DAYS = 365


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
        said = exc.stderr.decode(errors="replace")
        raise SandboxFailed(f"openssl {arguments[0]} failed: {said}") from exc
