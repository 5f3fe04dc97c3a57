"""
Connection settings in the names of the fleet file, turned into what the client wants.

The fleet file uses librdkafka's names. Secrets are references (`${env:NAME}`, `${file:PATH}`) that
are resolved here, at connect time, so that no record, log line or Spark plan ever holds one.
Certificates are read here too, so that an error names the setting that is wrong; nothing prompts.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from toolkit.errors import FleetFileError, UsageError
from toolkit.kafka_io.client.login_settings import admin_login, check_login
from toolkit.model import Cluster, secrets
from toolkit.model.cluster import (
    PROTOCOL,
    PROTOCOLS,
    SECRET_SETTINGS,
    SETTINGS,
    wrong_together,
)
from toolkit.model.secrets import REFERENCE
from toolkit.model.server_addresses import read_servers

CA, CERTIFICATE = "ssl.ca.location", "ssl.certificate.location"
KEY, KEY_PASSWORD = "ssl.key.location", "ssl.key.password"
CA_TEXT, CERTIFICATE_TEXT, KEY_TEXT = "ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem"
MOST_TEXT = 60_000  # characters; a pipe takes them at once


def admin_settings(cluster: Cluster) -> dict[str, Any]:
    """
    Arguments for kafka-python's admin client; raises FleetFileError for what cannot be used.

    The client would take a protocol that it does not know for plain text, so it is refused here.
    """
    resolved = _resolved(cluster)
    protocol = resolved[PROTOCOL]
    return {
        "client_id": resolved.get("client.id", "offsetbook"),
        "security_protocol": protocol,
        "bootstrap_servers": _servers(cluster, resolved),
        **({"ssl_context": _tls_context(cluster, resolved)} if protocol.endswith("SSL") else {}),
        **(admin_login(cluster, resolved) if protocol.startswith("SASL") else {}),
    }


def _servers(cluster: Cluster, resolved: dict[str, str]) -> list[str]:
    try:
        return list(map(str, read_servers(cluster.bootstrap_servers, resolved[PROTOCOL])))
    except UsageError as exc:
        hint = f"write host:port; addresses are in {cluster.origin.settings} or in the command"
        raise FleetFileError(f"cluster {cluster.name}: {exc.problem}", hint=hint) from exc


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
        # Nothing else is looked up: an address could send a secret to another server.
        resolved[name] = _look_up(cluster, name, value) if name in SECRET_SETTINGS else value
        if name.endswith(".location") and not os.access(resolved[name], os.R_OK):
            raise FleetFileError(
                f"cluster {cluster.name}: {name} names {resolved[name]}, which cannot be read",
                hint=f"fix the path in {cluster.origin.settings}",
            )
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
    if protocol.startswith("SASL"):
        check_login(cluster, resolved)
    return resolved


def _look_up(cluster: Cluster, name: str, value: str) -> str:
    about = f"cluster {cluster.name}: {name} refers to"
    hint = f"provide it, or fix the reference in {cluster.origin.settings}"
    try:
        found = secrets.resolved(value)
    except LookupError as exc:
        raise FleetFileError(f"{about} {exc}", hint=hint) from exc
    if not found:
        raise FleetFileError(f"{about} {value}, which is empty", hint=hint)
    return found


def _tls_context(cluster: Cluster, settings: Mapping[str, str]) -> ssl.SSLContext:
    """
    Return the context of a cluster's TLS connections; certificates and host names are verified.

    Raises FleetFileError for files that cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_ca(cluster, settings, context)
    _load_certificate(cluster, settings, context)
    return context


def _load_ca(cluster: Cluster, settings: Mapping[str, str], context: ssl.SSLContext) -> None:
    if CA_TEXT in settings:
        try:
            context.load_verify_locations(cadata=settings[CA_TEXT])
        except (ssl.SSLError, ValueError) as exc:  # the latter where it is not ASCII
            raise _wrong_file(cluster, f"{CA_TEXT} has no certificate in PEM format") from exc
        return
    if CA not in settings:
        context.load_default_certs()
        return
    path = Path(settings[CA])
    try:
        if path.is_dir():
            context.load_verify_locations(capath=path)
        else:
            context.load_verify_locations(cafile=path)
    except OSError as exc:  # SSLError is one
        raise _wrong_file(
            cluster, f"{CA} names {path}, which has no certificate in PEM format"
        ) from exc


def _load_certificate(
    cluster: Cluster, settings: Mapping[str, str], context: ssl.SSLContext
) -> None:
    certificate = CERTIFICATE_TEXT if CERTIFICATE_TEXT in settings else CERTIFICATE
    if certificate not in settings:
        for name in {KEY, KEY_TEXT} & settings.keys():
            raise _wrong_file(cluster, f"{name} is set, but {CERTIFICATE} is not")
        return
    key = next((name for name in (KEY_TEXT, KEY) if name in settings), certificate)
    password_requests = []

    def password() -> str:
        # Without an answer, Python would ask at the terminal.
        password_requests.append(True)
        return settings.get(KEY_PASSWORD, "")

    try:
        with ExitStack() as pipes:
            chain, private = (
                pipes.enter_context(pem_path(name, settings[name])) for name in (certificate, key)
            )
            context.load_cert_chain(chain, private, password)
    except (OSError, ValueError) as exc:  # the latter for what is too long
        named = _named(certificate, settings)
        key_named = f"{KEY} {settings[key]}" if key == CERTIFICATE else _named(key, settings)
        if not password_requests and "KEY_VALUES_MISMATCH" in str(exc):
            what = f"{key_named} is not the key of {named}"
        elif password_requests and KEY_PASSWORD in settings:
            what = f"{KEY_PASSWORD} is not the password of {key_named}"
        elif password_requests:
            what = f"{key_named} is encrypted, and {KEY_PASSWORD} is not set"
        elif "-----BEGIN CERTIFICATE-----" not in _pem_text(certificate, settings[certificate]):
            what = f"{named} has no certificate in PEM format"
        else:
            what = f"{key_named} has no private key in PEM format"
        raise _wrong_file(cluster, what) from exc


def _named(name: str, settings: Mapping[str, str]) -> str:
    return f"{name} {settings[name]}" if name.endswith(".location") else name


def _pem_text(name: str, value: str) -> str:
    is_file = name.endswith(".location")
    return Path(value).read_text("ascii", errors="replace") if is_file else value


@contextmanager
def pem_path(name: str, value: str) -> Iterator[str]:
    """Yield the path of a file; of a text that of a pipe with it, so that no disk gets a key."""
    if name.endswith(".location"):
        yield value
        return
    if len(value) > MOST_TEXT:
        raise ValueError("too long")
    reading, writing = os.pipe()
    try:
        with os.fdopen(writing, "w", encoding="utf-8") as pipe:
            pipe.write(value)
        yield f"/dev/fd/{reading}"
    finally:
        os.close(reading)


def _wrong_file(cluster: Cluster, what: str) -> FleetFileError:
    hint = f"fix it in {cluster.origin.settings}"
    return FleetFileError(f"cluster {cluster.name}: {what}", hint=hint)
