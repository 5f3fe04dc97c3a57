"""Read the certificates of a connection, and name the setting that is wrong; never prompt."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from toolkit.errors import FleetFileError
from toolkit.model import Cluster

CA, CERTIFICATE = "ssl.ca.location", "ssl.certificate.location"
KEY, KEY_PASSWORD = "ssl.key.location", "ssl.key.password"
CA_TEXT, CERTIFICATE_TEXT, KEY_TEXT = "ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem"
MOST_TEXT = 60_000  # characters; a pipe takes them at once


def tls_context(cluster: Cluster, settings: Mapping[str, str]) -> ssl.SSLContext:
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
            raise _wrong(cluster, f"{CA_TEXT} has no certificate in PEM format") from exc
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
        raise _wrong(cluster, f"{CA} names {path}, which has no certificate in PEM format") from exc


def _load_certificate(
    cluster: Cluster, settings: Mapping[str, str], context: ssl.SSLContext
) -> None:
    certificate = CERTIFICATE_TEXT if CERTIFICATE_TEXT in settings else CERTIFICATE
    if certificate not in settings:
        for name in {KEY, KEY_TEXT} & settings.keys():
            raise _wrong(cluster, f"{name} is set, but {CERTIFICATE} is not")
        return
    key = next((name for name in (KEY_TEXT, KEY) if name in settings), certificate)
    asked = []

    def password() -> str:
        # Without an answer, Python would ask at the terminal.
        asked.append(True)
        return settings.get(KEY_PASSWORD, "")

    try:
        with ExitStack() as pipes:
            chain, private = (
                pipes.enter_context(_path(name, settings[name])) for name in (certificate, key)
            )
            context.load_cert_chain(chain, private, password)
    except (OSError, ValueError) as exc:  # the latter for what is too long
        named = _named(certificate, settings)
        key_named = f"{KEY} {settings[key]}" if key == CERTIFICATE else _named(key, settings)
        if not asked and "KEY_VALUES_MISMATCH" in str(exc):
            what = f"{key_named} is not the key of {named}"
        elif asked and KEY_PASSWORD in settings:
            what = f"{KEY_PASSWORD} is not the password of {key_named}"
        elif asked:
            what = f"{key_named} is encrypted, and {KEY_PASSWORD} is not set"
        elif "-----BEGIN CERTIFICATE-----" not in _text(certificate, settings[certificate]):
            what = f"{named} has no certificate in PEM format"
        else:
            what = f"{key_named} has no private key in PEM format"
        raise _wrong(cluster, what) from exc


def _named(name: str, settings: Mapping[str, str]) -> str:
    return f"{name} {settings[name]}" if name.endswith(".location") else name


def _text(name: str, value: str) -> str:
    is_file = name.endswith(".location")
    return Path(value).read_text("ascii", errors="replace") if is_file else value


@contextmanager
def _path(name: str, value: str) -> Iterator[str]:
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


def _wrong(cluster: Cluster, what: str) -> FleetFileError:
    hint = f"fix it in {cluster.origin.settings}"
    return FleetFileError(f"cluster {cluster.name}: {what}", hint=hint)
