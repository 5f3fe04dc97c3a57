"""What is said when TLS or a login fails: one sentence each, with the setting that is wrong."""

import json
import os
import subprocess
import sys
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from ssl import SSLError

import pytest
from faulty_proxy import CHUNK, FaultyProxy
from secured import Secured, encrypted_key

from toolkit.errors import BrokerRefused, ClusterUnreachable, FleetFileError, ToolkitError
from toolkit.kafka_io.client.connection_diagnosis import explain
from toolkit.kafka_io.client.login_settings import KerberosFailed
from toolkit.model import Cluster
from toolkit.sandbox.broker import free_ports
from toolkit.sandbox.secure import Authority, Certificate

SSL = {"security.protocol": "SSL"}
PASSWORD = "OFFSETBOOK_TEST_PASSWORD"  # noqa: S105 -- the name of a variable
SECRET = f"${{env:{PASSWORD}}}"


def certificate(of: Certificate) -> dict[str, str]:
    return {"ssl.certificate.location": str(of.certificate), "ssl.key.location": str(of.key)}


@pytest.fixture(scope="module")
def cases(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Cluster]:
    tmp_path = tmp_path_factory.mktemp("files")
    trusted = {**SSL, "ssl.ca.location": str(secured.authority.certificate)}
    me = secured.authority.issue("client")
    mine = certificate(me)
    late = secured.authority.issue("late-client", days=-1)
    stranger = Authority(tmp_path / "stranger")
    stranger.create()
    other = stranger.issue("client")
    locked = {**mine, "ssl.key.location": str(encrypted_key(me.key, "0pen"))}
    junk = tmp_path / "junk.pem"
    junk.write_text("not PEM\n")
    login = secured.sasl.settings

    def at(listener: str, settings: dict[str, str], **changed: str | None) -> Cluster:
        named = {name.replace("__", "."): value for name, value in changed.items()}
        found = {k: v for k, v in {**settings, **named}.items() if v is not None}
        return Cluster("eu", secured.addresses[listener], found)

    def in_line(settings: dict[str, str], what: str) -> dict[str, str]:
        text = Path(settings[f"ssl.{what}.location"]).read_text()
        return {
            **{name: value for name, value in settings.items() if f".{what}." not in name},
            f"ssl.{what}.pem": text,
        }

    both = {**login, "security.protocol": "SASL_SSL"}
    return {
        "expired": at("EXPIRED", trusted),
        "another host": at("OTHERHOST", trusted),
        "another CA": at("TLS", {**SSL, "ssl.ca.location": str(stranger.certificate)}),
        "another CA in line": at(
            "TLS", in_line({**SSL, "ssl.ca.location": str(stranger.certificate)}, "ca")
        ),
        "no CA": at("TLS", SSL),
        "CA missing": at("TLS", {**SSL, "ssl.ca.location": "/no/such/ca.pem"}),
        "CA not PEM": at("TLS", {**SSL, "ssl.ca.location": str(junk)}),
        "no client certificate": at("MUTUAL", trusted),
        "client certificate expired": at("MUTUAL", {**trusted, **certificate(late)}),
        "client certificate of a stranger": at("MUTUAL", {**trusted, **certificate(other)}),
        "client certificate expired, in line": at(
            "MUTUAL", {**trusted, **in_line(certificate(late), "certificate")}
        ),
        "client certificate of a stranger, in line": at(
            "MUTUAL", {**trusted, **in_line(certificate(other), "certificate")}
        ),
        "key of another certificate": at(
            "MUTUAL", {**trusted, **mine, "ssl.key.location": str(other.key)}
        ),
        "key without certificate": at("MUTUAL", trusted, ssl__key__location=str(me.key)),
        "key not PEM": at("MUTUAL", {**trusted, **mine, "ssl.key.location": str(junk)}),
        "certificate not PEM": at(
            "MUTUAL", {**trusted, **mine, "ssl.certificate.location": str(junk)}
        ),
        "key locked": at("MUTUAL", {**trusted, **locked}),
        "key password wrong": at("MUTUAL", {**trusted, **locked, "ssl.key.password": SECRET}),
        "no mechanism": at("PASSWORD", login, sasl__mechanism=None),
        "unknown mechanism": at("PASSWORD", login, sasl__mechanism="PLAN"),
        "no user": at("PASSWORD", login, sasl__username=None),
        "no password": at("PASSWORD", login, sasl__password=None),
        "empty password": at("PASSWORD", login, sasl__password=f"${{file:{os.devnull}}}"),
        "wrong password": at("PASSWORD", login, sasl__password=SECRET),
        "mechanism not offered": at("PASSWORD", login, sasl__mechanism="SCRAM-SHA-512"),
        "plaintext to a login": at("PASSWORD", {}),
        "TLS to TLS with a login": at("SECURE", trusted),
        "login where there is none": at("PLAINTEXT", login),
        "TLS login where there is none": at("TLS", {**trusted, **both}),
        "TLS to plaintext": at("PLAINTEXT", trusted),
        "TLS to a login": at("PASSWORD", trusted),
        "plaintext to TLS": at("TLS", {}),
        "login in plaintext to TLS": at("SECURE", login),
        "no gssapi": at("PASSWORD", login, sasl__mechanism="GSSAPI"),
        "no token settings": at("TOKEN", login, sasl__mechanism="OAUTHBEARER"),
    }


# The type of error, words of the problem, and words of the hint.
SAID = {
    "expired": (ClusterUnreachable, "the broker's certificate has expired", "ssl.ca.location"),
    "another host": (ClusterUnreachable, "is for another host", "bootstrap.servers"),
    "another CA": (ClusterUnreachable, "no certificate in ssl.ca.location", "ssl.ca.location"),
    "another CA in line": (
        ClusterUnreachable,
        "no certificate in ssl.ca.pem vouches",
        "ssl.ca.pem",
    ),
    "no CA": (ClusterUnreachable, "this machine does not trust", "set ssl.ca.location"),
    "CA missing": (FleetFileError, "ssl.ca.location names /no/such/ca.pem, which cannot be", "fix"),
    "CA not PEM": (FleetFileError, "which has no certificate in PEM format", "fix"),
    "no client certificate": (
        BrokerRefused,
        "requires a client certificate",
        "set ssl.certificate.location",
    ),
    "client certificate expired": (BrokerRefused, "expired at", "renew it"),
    "client certificate of a stranger": (
        BrokerRefused,
        "refused the client certificate in ssl.certificate.location",
        "a CA that the broker trusts",
    ),
    "client certificate expired, in line": (
        BrokerRefused,
        "the client certificate in ssl.certificate.pem expired at",
        "renew it",
    ),
    "client certificate of a stranger, in line": (
        BrokerRefused,
        "refused the client certificate in ssl.certificate.pem (",
        "a CA that the broker trusts",
    ),
    "key of another certificate": (
        FleetFileError,
        "is not the key of ssl.certificate.location",
        "fix",
    ),
    "key without certificate": (FleetFileError, "but ssl.certificate.location is not", "fix"),
    "key not PEM": (FleetFileError, "has no private key in PEM format", "fix"),
    "certificate not PEM": (FleetFileError, "has no certificate in PEM format", "fix"),
    "key locked": (FleetFileError, "is encrypted, and ssl.key.password is not set", "fix"),
    "key password wrong": (FleetFileError, "ssl.key.password is not the password of", "fix"),
    "no mechanism": (FleetFileError, "but sasl.mechanism is not set", "SCRAM-SHA-512"),
    "unknown mechanism": (FleetFileError, "sasl.mechanism 'PLAN' is unknown", "PLAIN"),
    "no user": (FleetFileError, "sasl.mechanism is PLAIN, but sasl.username is not set", "set it"),
    "no password": (FleetFileError, "but sasl.password is not set", "set it"),
    "empty password": (FleetFileError, "sasl.password refers to ${file:", "provide it"),
    "wrong password": (
        BrokerRefused,
        "authentication failed (Authentication failed: Invalid username or password)",
        "sasl.password",
    ),
    "mechanism not offered": (BrokerRefused, "does not offer the mechanism", "sasl.mechanism"),
    "plaintext to a login": (ClusterUnreachable, "require a login (SASL)", "to SASL_PLAINTEXT"),
    "TLS to TLS with a login": (ClusterUnreachable, "require a login (SASL)", "to SASL_SSL"),
    "login where there is none": (BrokerRefused, "has no login (SASL)", "security.protocol"),
    "TLS login where there is none": (BrokerRefused, "has no login (SASL)", "security.protocol"),
    "TLS to plaintext": (ClusterUnreachable, "the listener does not use TLS", "security.protocol"),
    "TLS to a login": (ClusterUnreachable, "the listener does not use TLS", "security.protocol"),
    "plaintext to TLS": (ClusterUnreachable, "expects TLS", "security.protocol"),
    "login in plaintext to TLS": (ClusterUnreachable, "expects TLS", "security.protocol"),
    "no gssapi": (FleetFileError, "needs the Python package gssapi", "install"),
    "no token settings": (
        FleetFileError,
        "sasl.oauthbearer.token.endpoint.url is not set",
        "sasl.oauthbearer.token.command",
    ),
}


@pytest.mark.parametrize("case", SAID)
def test_each_failure_has_its_own_sentence(
    case: str,
    cases: dict[str, Cluster],
    refusal: Callable[[Cluster], ToolkitError],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error says what is wrong and names the setting, and no secret."""
    monkeypatch.setenv(PASSWORD, "wr0ng-secret")
    error = refusal(cases[case])

    kind, problem, hint = SAID[case]
    assert kind is type(error), str(error)
    assert problem in error.problem
    assert hint in error.hint
    assert "cluster eu" in error.problem
    assert "wr0ng-secret" not in f"{error!r} {error.__cause__!r}"


@pytest.mark.parametrize("settings", [{}, {"ssl.certificate.location": "/no/such/file"}])
@pytest.mark.parametrize("alert", ["TLSV1_ALERT_PROTOCOL_VERSION", "TLSV1_ALERT_INTERNAL_ERROR"])
def test_an_alert_that_is_not_about_a_certificate(alert: str, settings: dict[str, str]) -> None:
    """It is quoted, with a client certificate and without."""
    exc = SSLError(1, f"[SSL: {alert}]")
    exc.reason = alert
    found = explain(Cluster("eu", "h:1", {**SSL, **settings}), exc)

    assert not found.refused
    assert f"(TLS alert: {alert[12:].lower().replace('_', ' ')})" in found.why
    assert "client certificate" not in found.why


def test_every_sentence_is_another(cases: dict[str, Cluster]) -> None:
    """No case lacks a sentence."""
    assert list(cases) == list(SAID)


def test_a_locked_key_never_asks_at_the_terminal(cases: dict[str, Cluster]) -> None:
    """A key without its password is an error at a terminal, too, where OpenSSL would ask."""
    code = (
        "from toolkit.kafka_io.client.client_settings import admin_settings\n"
        "from toolkit.model import Cluster\n"
        f"admin_settings(Cluster('eu', 'h:1', {dict(cases['key locked'].settings)!r}))\n"
    )
    own, terminal = os.openpty()
    with os.fdopen(own, "rb", buffering=0), os.fdopen(terminal, "rb", buffering=0) as keyboard:
        done = subprocess.run(
            [sys.executable, "-c", code],
            stdin=keyboard,
            capture_output=True,
            start_new_session=True,
            timeout=120,
            check=False,
        )

    assert b"ssl.key.password is not set" in done.stderr


class CountingProxy(FaultyProxy):
    """Passes everything on, and counts what holds the password."""

    logins = 0

    async def _pass_on(self, reader: StreamReader, writer: StreamWriter, *_: object) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK):
                self.logins += b"\0wr0ng-secret" in data
                writer.write(data)
                await writer.drain()


def test_a_wrong_password_is_sent_once(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several bootstrap servers one is asked, once: more attempts could lock the account."""
    monkeypatch.setenv(PASSWORD, "wr0ng-secret")
    settings = {**secured.sasl.settings, "sasl.password": SECRET}
    program = Path(sys.executable).with_name("offsetbook")
    fleet = tmp_path / "fleet.yaml"
    (port,) = free_ports(1)
    broker = int(secured.sasl.bootstrap_servers.partition(":")[2])
    with CountingProxy(port, to=broker) as proxy:
        settings["bootstrap.servers"] = f"127.0.0.1:{proxy.port},localhost:{proxy.port}"
        fleet.write_text(json.dumps({"clusters": {"eu": settings}}))
        done = subprocess.run(
            [program, "groups", "describe", "--fleet", fleet, "g"],
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    assert 1 == proxy.logins
    (line,) = done.stderr.splitlines()
    assert "Invalid username or password" in line


def test_a_failed_kerberos_login_names_ticket_kdc_and_principal() -> None:
    """The error repeats what the Kerberos library says; the hint names all that can be missing."""
    cluster = Cluster("eu", "broker1.example:9093", {"sasl.kerberos.service.name": "events"})
    words = "Cannot contact any KDC for realm 'EXAMPLE.TEST'"

    reason = explain(cluster, KerberosFailed(words))

    assert f"Kerberos: {words}" == reason.why
    assert not reason.refused
    for needed in ("valid ticket (kinit)", "the KDC answers", "events/HOST"):
        assert needed in reason.hint
