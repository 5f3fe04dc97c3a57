"""Read the certificates of a connection, and name the setting that is wrong; never prompt."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path

from toolkit.errors import FleetFileError
from toolkit.model import Cluster

CA, CERTIFICATE = "ssl.ca.location", "ssl.certificate.location"
KEY, KEY_PASSWORD = "ssl.key.location", "ssl.key.password"


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
    if CERTIFICATE not in settings:
        if KEY in settings:
            raise _wrong(cluster, f"{KEY} is set, but {CERTIFICATE} is not")
        return
    certificate = settings[CERTIFICATE]
    key = settings.get(KEY, certificate)
    asked = []

    def password() -> str:
        # Without an answer, Python would ask at the terminal.
        asked.append(True)
        return settings.get(KEY_PASSWORD, "")

    try:
        context.load_cert_chain(certificate, key, password)
    except (OSError, ValueError) as exc:  # the latter for a password that is too long
        if not asked and "KEY_VALUES_MISMATCH" in str(exc):
            what = f"{KEY} {key} is not the key of {CERTIFICATE} {certificate}"
        elif asked and KEY_PASSWORD in settings:
            what = f"{KEY_PASSWORD} is not the password of {KEY} {key}"
        elif asked:
            what = f"{KEY} {key} is encrypted, and {KEY_PASSWORD} is not set"
        elif "-----BEGIN CERTIFICATE-----" not in _text(certificate):
            what = f"{CERTIFICATE} names {certificate}, which has no certificate in PEM format"
        else:
            what = f"{KEY} names {key}, which has no private key in PEM format"
        raise _wrong(cluster, what) from exc


def _text(path: str) -> str:
    return Path(path).read_text("ascii", errors="replace")


def _wrong(cluster: Cluster, what: str) -> FleetFileError:
    return FleetFileError(f"cluster {cluster.name}: {what}", hint="fix it in the fleet file")
