"""Ways to log in that need more than a password: access tokens, certificates, properties files."""

import json
import shlex
import sys
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from applications import eventually
from kafka.protocol.admin import ListGroupsRequest
from secured import Secured, add_scram_user, encrypted_key

from toolkit.errors import BrokerRefused, ClusterUnreachable, FleetFileError
from toolkit.kafka_io.client.connection import Connection
from toolkit.model import Cluster
from toolkit.model.client_properties import read_client_properties
from toolkit.storage.fleet_file import load_fleet

CLIENT = {"sasl.oauthbearer.client.id": "me", "sasl.oauthbearer.scope": "kafka"}


def token(lifetime_s: int = 3600) -> str:
    """Return a token that nobody signed, which the broker accepts (KIP-255)."""
    now = int(time.time())
    parts = {"alg": "none"}, {"sub": "token-user", "iat": now, "exp": now + lifetime_s}
    encoded = (urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return ".".join((*encoded, ""))


class TokenEndpoint(ThreadingHTTPServer):
    """An authorization server: gives a token for the right secret, and counts its requests."""

    requests: list[dict[str, list[str]]]
    broken = b""  # what it sends in place of an answer

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/token"


class TokenRequests(BaseHTTPRequestHandler):
    """Requests for client credentials (RFC 6749, section 4.4)."""

    server: TokenEndpoint

    def do_POST(self) -> None:
        """Answer with a token, or with the error of the specification."""
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.server.requests.append(form)
        if self.server.broken:
            self.wfile.write(self.server.broken)
            return
        right = self.headers["Authorization"] == "Basic bWU6cmlnaHQ="  # me:right
        answer = {"access_token": token()} if right else {"error": "invalid_client"}
        body = json.dumps(answer).encode()
        self.send_response(200 if right else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Write nothing."""


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    with TokenEndpoint(("127.0.0.1", 0), TokenRequests) as server:
        server.requests = []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def with_token(secured: Secured, **settings: str) -> Cluster:
    named = {f"sasl.oauthbearer.{n.replace('_', '.')}": value for n, value in settings.items()}
    protocol = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    return Cluster("eu", secured.addresses["TOKEN"], {**protocol, **named})


def command(output: str) -> str:
    return shlex.join([sys.executable, "-c", f"print({output!r})"])


def works(cluster: Cluster) -> None:
    with Connection(cluster) as connection:
        connection.send(ListGroupsRequest(), to=connection.broker_ids[0])


def test_client_credentials(
    secured: Secured, endpoint: TokenEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token of the endpoint lets the client in; the scope is asked for."""
    monkeypatch.setenv("OFFSETBOOK_TEST_SECRET", "right")
    settings = {"client_secret": "${env:OFFSETBOOK_TEST_SECRET}", "client_id": "me"}
    cluster = with_token(secured, token_endpoint_url=endpoint.url, scope="kafka", **settings)

    works(cluster)
    assert {("client_credentials", "kafka")} == {
        (form["grant_type"][0], form["scope"][0]) for form in endpoint.requests
    }


def test_client_credentials_that_are_refused(
    secured: Secured, endpoint: TokenEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of the endpoint is reported once, no broker is asked, and no secret shown."""
    monkeypatch.setenv("OFFSETBOOK_TEST_SECRET", "wr0ng")
    settings = {"client_secret": "${env:OFFSETBOOK_TEST_SECRET}", "client_id": "me"}
    cluster = with_token(secured, token_endpoint_url=endpoint.url, **settings)
    with pytest.raises(ClusterUnreachable, match=r"it answered 401 \(invalid_client\)") as caught:
        Connection(cluster)

    assert 1 == len(endpoint.requests)
    assert "sasl.oauthbearer.token.endpoint.url" in caught.value.problem
    assert "wr0ng" not in repr(caught.value)


CUT_SHORT = b"Content-Length: 500\r\n\r\n{"


@pytest.mark.parametrize(
    ("broken", "url", "words"),
    [
        (b"HTTP/1.1 200 OK\r\n" + CUT_SHORT, "", "no complete answer in HTTP (IncompleteRead)"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "", "no complete answer in HTTP (BadStatusLine)"),
        (b"", "http://idp.example:443x/t", "no complete answer in HTTP (InvalidURL)"),
    ],
    ids=["cut short", "TLS alert", "port"],
)
def test_a_token_endpoint_without_a_response(
    broken: bytes, url: str, words: str, endpoint: TokenEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A response that ends early or is missing, and a mistyped address, are reported."""
    monkeypatch.setenv("OFFSETBOOK_TEST_SECRET", "right")
    endpoint.broken = broken
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": url or endpoint.url,
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": "${env:OFFSETBOOK_TEST_SECRET}",
    }
    with pytest.raises(ClusterUnreachable) as caught:
        Connection(Cluster("eu", "127.0.0.1:1", settings))

    assert f"from sasl.oauthbearer.token.endpoint.url: {words}" in caught.value.problem


def test_a_token_command(secured: Secured) -> None:
    """A token that a command prints lets the client in."""
    works(with_token(secured, token_command=command(token())))


BROKEN = {
    "exit code": (f"{shlex.quote(sys.executable)} -c 'exit(3)'", "it ended with exit code 3"),
    "nothing": (command(""), "it did not print exactly one token"),
    "sentence": (command("log in first"), "it did not print exactly one token"),
    "missing": ("/no/such/program", "it cannot be run"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_token_command_that_fails(secured: Secured, how: str) -> None:
    """The error names the setting of the command."""
    given, words = BROKEN[how]
    with pytest.raises(ClusterUnreachable) as caught:
        Connection(with_token(secured, token_command=given))

    assert f"no access token from sasl.oauthbearer.token.command: {words}" in caught.value.problem


def test_a_token_that_the_broker_refuses(secured: Secured) -> None:
    """An expired token is a refused login that names the settings, not the token."""
    expired = token(-3600)
    with pytest.raises(BrokerRefused, match="authentication failed") as caught:
        Connection(with_token(secured, token_command=command(expired)))

    assert "sasl.oauthbearer" in caught.value.hint
    assert expired not in f"{caught.value!r}"


def test_a_client_certificate_with_a_locked_key(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With mutual TLS both clients get in; the password of the key is a reference."""
    monkeypatch.setenv("OFFSETBOOK_TEST_SECRET", "0pen")
    me = secured.authority.issue("client")
    settings = {
        "security.protocol": "SSL",
        "ssl.ca.location": str(secured.authority.certificate),
        "ssl.certificate.location": str(me.certificate),
        "ssl.key.location": str(encrypted_key(me.key, "0pen")),
        "ssl.key.password": "${env:OFFSETBOOK_TEST_SECRET}",
    }
    mutual = Cluster("eu", secured.addresses["MUTUAL"], settings)
    works(mutual)


JAVA = """\
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
    username="{user}" password="{password}";
ssl.truststore.type=PEM
ssl.truststore.location={ca}
acks=all
"""
LIBRDKAFKA = """\
metadata.broker.list={servers}
security.protocol=SASL_SSL
sasl.mechanisms=SCRAM-SHA-512
sasl.username={user}
sasl.password={password}
ssl.ca.location={ca}
"""


@pytest.mark.parametrize("form", [JAVA, LIBRDKAFKA], ids=["Java", "librdkafka"])
def test_a_properties_file_of_the_fleet_file(form: str, secured: Secured, tmp_path: Path) -> None:
    """A cluster may refer to a client's file, which keeps the secret: it is in no record."""
    role = secured.role("operator")
    password = Path(role.settings["sasl.password"][len("${file:") : -1]).read_text()
    (tmp_path / "ca.pem").write_bytes(secured.authority.certificate.read_bytes())
    values = {"user": "operator", "password": password, "servers": role.bootstrap_servers}
    (tmp_path / "client.properties").write_text(form.format(ca="ca.pem", **values))
    fleet = tmp_path / "fleet.yaml"
    servers = "" if form is LIBRDKAFKA else f"    bootstrap.servers: {role.bootstrap_servers}\n"
    fleet.write_text(
        f"clusters:\n  eu:\n    properties: ./client.properties\n    timeout: 1m\n{servers}"
    )
    cluster = load_fleet(fleet)["eu"]

    works(cluster)
    assert 60 == cluster.timeout_s
    assert password not in repr(cluster)


@pytest.mark.parametrize("user", ["a=b,c", "=2C,=3D"])
def test_a_scram_user_with_signs_of_the_protocol(
    user: str, secured: Secured, tmp_path: Path
) -> None:
    """A name with = and comma, which SCRAM escapes (RFC 5802), lets the client in; once only."""
    password = "p=w,=3D"  # noqa: S105 - a test's
    add_scram_user(secured, user, password)
    role = secured.role("viewer")
    file = tmp_path / "password"
    file.write_text(password)
    login = {"sasl.username": user, "sasl.password": f"${{file:{file}}}"}
    cluster = replace(role, settings={**role.settings, **login})
    # The answer to the change may come before the broker knows of it.
    eventually(lambda: is_let_in(cluster))

    file.write_text("wr0ng")
    with pytest.raises(BrokerRefused, match="authentication failed"):
        Connection(cluster)


def is_let_in(cluster: Cluster) -> bool:
    with suppress(BrokerRefused), Connection(cluster):
        return True
    return False


def test_certificates_and_a_key_as_text(secured: Secured, tmp_path: Path) -> None:
    """Java's inline PEM (KIP-651) lets the client in; the key stays in its file."""
    me = secured.authority.issue("client")
    texts = {
        "ssl.truststore.certificates": secured.authority.certificate.read_text(),
        "ssl.keystore.certificate.chain": me.certificate.read_text(),
        "ssl.keystore.key": encrypted_key(me.key, "0pen").read_text(),
    }
    lines = [f"{name}={' '.join(text.split(chr(10)))}" for name, text in texts.items()]
    kinds = ["ssl.truststore.type=PEM", "ssl.keystore.type=PEM", "ssl.key.password=0pen"]
    file = tmp_path / "client.properties"
    file.write_text("\n".join(["security.protocol=SSL", *kinds, *lines]))
    mutual = Cluster("eu", secured.addresses["MUTUAL"], read_client_properties(file))

    works(mutual)
    assert "PRIVATE" not in repr(mutual)


@pytest.mark.parametrize("name", ["ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem"])
def test_a_text_that_is_no_certificate(name: str, secured: Secured, tmp_path: Path) -> None:
    """The setting with the text is named; the text of a key is not shown."""
    me = secured.authority.issue("client")
    key, kind = tmp_path / "key", "private key" if name == "ssl.key.pem" else "certificate"
    key.write_text("none" if name == "ssl.key.pem" else me.key.read_text())
    settings = {
        "security.protocol": "SSL",
        "ssl.ca.pem": secured.authority.certificate.read_text(),
        "ssl.certificate.pem": me.certificate.read_text(),
        "ssl.key.pem": f"${{file:{key}}}",
    }
    if name != "ssl.key.pem":
        settings[name] = "none"
    with pytest.raises(FleetFileError, match=f"{name} has no {kind}"):
        Connection(Cluster("eu", secured.addresses["MUTUAL"], settings))
