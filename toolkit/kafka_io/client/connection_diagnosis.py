"""Explain why a cluster cannot be reached: the server, TLS or the login, with the setting."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import kafka.errors

from toolkit.kafka_io.client.client_settings import pem_path
from toolkit.kafka_io.client.login_settings import KerberosFailed
from toolkit.kafka_io.client.timed_connections import LoginRequired, Server, ThrottledByQuota
from toolkit.model import Cluster

PROBE_TIMEOUT_S = 1.5
TIMEOUTS = (kafka.errors.KafkaTimeoutError, kafka.errors.RequestTimedOutError)
# Codes of OpenSSL, x509_vfy.h.
EXPIRED, NOT_YET_VALID, OTHER_NAME, OTHER_ADDRESS = 10, 9, 62, 64
# TLS alerts by which a broker asks for a certificate, and by which it does not like one.
NO_CERTIFICATE = frozenset({"certificate required", "bad certificate", "handshake failure"})
BAD_CERTIFICATE = NO_CERTIFICATE | {
    *("access denied", "certificate expired", "certificate revoked", "certificate unknown"),
    *("decrypt error", "unknown ca", "unsupported certificate"),
}


class Reason(NamedTuple):
    """Why something failed, what to try, and whether a broker has answered and refused it."""

    why: str
    hint: str
    refused: bool = False


def why_not_connected(cluster: Cluster, failures: Mapping[Server, Exception]) -> Reason:
    """Return the reason of each bootstrap server, and what to try."""
    found = {
        server: explain(cluster, exc) or _probe(cluster, server, exc)
        for server, exc in failures.items()
    }
    # Where a login was refused, nothing else was tried; the others do not matter.
    for reason in found.values():
        if reason.refused or len(found) == 1:
            return reason
    return Reason(
        "; ".join(f"{host}:{port}: {reason.why}" for (host, port), reason in found.items()),
        "; ".join(dict.fromkeys(reason.hint for reason in found.values())),
    )


def explain(cluster: Cluster, exc: BaseException) -> Reason | None:
    """Return what an error of the client says about TLS or the login; None for anything else."""
    for one in _causes(exc):
        if isinstance(one, ThrottledByQuota):
            return Reason(
                f"throttled by a quota, longer than {cluster.timeout_s:g} s",
                "raise the quota of this user and client id (kafka-configs --entity-type users); "
                f"{cluster.origin.timeout} sets the limit",
            )
        if found := _why_no_tls(cluster, one) or _why_no_login(cluster, one):
            return found
    return None


def _why_no_tls(cluster: Cluster, exc: BaseException) -> Reason | None:
    match exc:
        case ssl.SSLCertVerificationError():
            return _untrusted(cluster, exc)
        case ssl.SSLError() if "ALERT" in (exc.reason or ""):
            return _handshake_refused(cluster, exc.reason or "")
    return None


def _why_no_login(cluster: Cluster, exc: BaseException) -> Reason | None:
    place = cluster.origin.settings
    match exc:
        case kafka.errors.UnsupportedSaslMechanismError():
            mechanism = cluster.settings.get("sasl.mechanism")
            return Reason(
                f"authentication failed (the broker does not offer the mechanism {mechanism})",
                f"set sasl.mechanism in {place} to one that the broker offers",
                refused=True,
            )
        case kafka.errors.IllegalSaslStateError():
            return Reason(
                "the listener has no login (SASL), but the client tried to log in",
                f"set security.protocol in {place} to PLAINTEXT or SSL, "
                "or use the port with a login",
                refused=True,
            )
        case kafka.errors.SaslAuthenticationFailedError():
            return Reason(
                f"authentication failed ({_broker_words(exc)})",
                f"check {_credentials(cluster)} in {place}",
                refused=True,
            )
        case KerberosFailed():
            service = cluster.settings.get("sasl.kerberos.service.name", "kafka")
            return Reason(
                f"Kerberos: {exc.args[0]}",
                "check with klist that there is a valid ticket (kinit), that the KDC answers, and "
                f"that the brokers' principals are {service}/HOST, with the HOST that "
                "bootstrap.servers names",
            )
        case LoginRequired():
            return _login_required(cluster)
    return None


def _causes(exc: BaseException) -> Iterator[BaseException]:
    """Yield an error, what caused it, and errors that it has as its text."""
    yield exc
    if exc.__cause__:
        yield from _causes(exc.__cause__)
    for argument in exc.args:
        if isinstance(argument, BaseException):
            yield from _causes(argument)


def _untrusted(cluster: Cluster, exc: ssl.SSLCertVerificationError) -> Reason:
    ca, named = _certificate_setting(cluster, "ca")
    set_it = f"set {ca} in {cluster.origin.settings} to the CA of the broker's certificates"
    match exc.verify_code:
        case c if c == EXPIRED:
            return Reason(
                f"the broker's certificate has expired (or one of its CAs in {ca})",
                f"renew it on the broker; {ca} must have CAs that are valid",
            )
        case c if c == NOT_YET_VALID:
            return Reason(
                "the broker's certificate is not valid yet", "check the clocks of both sides"
            )
        case c if c in {OTHER_NAME, OTHER_ADDRESS}:
            return Reason(
                f"the broker's certificate is for another host ({exc.verify_message.rstrip('.')})",
                "use a host name of the certificate in bootstrap.servers, "
                "or add this one to the broker's certificate",
            )
    if ca in cluster.settings:
        return Reason(
            f"no certificate in {named} vouches for the broker's certificate "
            f"({exc.verify_message})",
            set_it,
        )
    return Reason(
        f"this machine does not trust the broker's certificate ({exc.verify_message})",
        set_it,
    )


def _certificate_setting(cluster: Cluster, what: str) -> tuple[str, str]:
    """Return the setting that has a certificate, or should, and how to name it: by its file."""
    text, file = f"ssl.{what}.pem", f"ssl.{what}.location"
    if text in cluster.settings:
        return text, text
    return file, f"{file} ({cluster.settings.get(file)})"


def _handshake_refused(cluster: Cluster, alert: str) -> Reason:
    """Explain a TLS alert; a broker sends one if it does not like the client's certificate."""
    certificate, named = _certificate_setting(cluster, "certificate")
    is_set = certificate in cluster.settings
    words = alert.lower().replace("_", " ").split("alert ")[-1]
    if words not in (BAD_CERTIFICATE if is_set else NO_CERTIFICATE):
        return Reason(
            f"the broker ended the TLS handshake (TLS alert: {words})",
            "check the TLS versions and ciphers that the broker allows, and read its log",
        )
    if not is_set:
        return Reason(
            f"the broker requires a client certificate (TLS alert: {words})",
            f"set ssl.certificate.location and ssl.key.location in {cluster.origin.settings}",
            refused=True,
        )
    if expired_at := _expired_at(certificate, cluster.settings[certificate]):
        return Reason(
            f"the client certificate in {named} expired at {expired_at}", "renew it", refused=True
        )
    return Reason(
        f"the broker refused the client certificate in {named} (TLS alert: {words})",
        "use a certificate of a CA that the broker trusts",
        refused=True,
    )


def _expired_at(setting: str, value: str) -> str:
    """Return when a certificate expired; "" if it has not, or cannot be read."""
    try:
        # The standard library has no public function that reads a certificate without a connection.
        with pem_path(setting, value) as path:
            found = ssl._ssl._test_decode_cert(path)  # type: ignore[attr-defined]  # noqa: SLF001
        end = str(found["notAfter"])
        return end if ssl.cert_time_to_seconds(end) < time.time() else ""
    except (AttributeError, KeyError, ValueError, OSError):
        return ""


def _broker_words(exc: BaseException) -> str:
    return str(exc).rpartition("Error: ")[2].strip() or type(exc).__name__


def _credentials(cluster: Cluster) -> str:
    match cluster.settings.get("sasl.mechanism"):
        case "OAUTHBEARER":
            return "sasl.mechanism and the sasl.oauthbearer settings"
        case "GSSAPI":
            return "sasl.mechanism and sasl.kerberos.service.name"
    return "sasl.mechanism, sasl.username and sasl.password"


def _login_required(cluster: Cluster) -> Reason:
    protocol = cluster.settings.get("security.protocol", "PLAINTEXT")
    other = {"PLAINTEXT": "SASL_PLAINTEXT", "SSL": "SASL_SSL"}.get(protocol)
    if other:
        return Reason(
            "the broker closed the connection at the first request: it seems to require a login "
            f"(SASL), but security.protocol is {protocol}",
            f"set security.protocol to {other}, and sasl.mechanism, in {cluster.origin.settings}",
        )
    return Reason("the broker closed the connection at the first request", "read the broker's log")


def _probe(cluster: Cluster, server: Server, exc: Exception) -> Reason:
    """Look at the listener once; nothing is sent over the connection but a TLS hello."""
    host, port = server
    try:
        with socket.create_connection((host, port), timeout=PROBE_TIMEOUT_S):
            pass
    except (socket.gaierror, UnicodeError):  # the latter for a name that DNS cannot have
        place = f"in bootstrap.servers of {cluster.origin.settings}, or in the command"
        return Reason(f"unknown host name {host!r}", f"fix it {place}")
    except OSError as failed:
        reason = failed.strerror or str(failed) or type(failed).__name__
        return Reason(f"cannot connect ({reason})", "check the address, and that the broker is up")
    if isinstance(exc, TIMEOUTS):
        return _silent(cluster, exc)
    uses_tls = cluster.settings.get("security.protocol", "PLAINTEXT").endswith("SSL")
    speaks_tls = _speaks_tls(host, port)
    if speaks_tls and not uses_tls:
        return Reason(
            "the listener expects TLS, but the client connected in plaintext",
            f"set security.protocol to SSL or SASL_SSL in {cluster.origin.settings}",
        )
    if uses_tls and not speaks_tls:
        return Reason(
            "the listener does not use TLS",
            "set security.protocol to PLAINTEXT or SASL_PLAINTEXT, or use the TLS port",
        )
    return Reason(
        "the port is open, but it did not respond like a Kafka broker",
        "check the port, security.protocol and certificates",
    )


def _silent(cluster: Cluster, exc: BaseException) -> Reason:
    where = " in the TLS handshake" if "handshake" in str(exc) else ""
    return Reason(
        f"the port is open, but there was no answer{where} within {cluster.timeout_s:g} s",
        check_silent(cluster),
    )


def check_silent(cluster: Cluster) -> str:
    """Return what to try where a broker does not answer."""
    return (
        "check the port, and that the broker is not stopped or overloaded; "
        f"{cluster.origin.timeout} sets the limit"
    )


def _speaks_tls(host: str, port: int) -> bool:
    context = ssl.create_default_context()
    # This only detects TLS; nothing is sent over the connection.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), timeout=PROBE_TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return True
    except ssl.SSLError as exc:
        # A TLS server that requires a client certificate sends a TLS alert.
        return "ALERT" in str(exc).upper()
    except OSError:
        return False
