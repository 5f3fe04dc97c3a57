"""What a client's properties file means here, Java's or librdkafka's."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.errors import UsageError
from toolkit.model import secrets
from toolkit.model.client_properties import read_client_properties

LOGIN = "org.apache.kafka.common.security.{0}LoginModule required username={1} password={2};"


def read(tmp_path: Path, text: str) -> dict[str, str]:
    """Read a file with this text."""
    path = tmp_path / "client.properties"
    path.write_text(text, "utf-8")
    return read_client_properties(path)


def test_a_login(tmp_path: Path) -> None:
    """Protocol, mechanism and user are taken over; of the password there is only a reference."""
    login = LOGIN.format("scram.Scram", '"reader"', '"s3 cr=t;"')
    settings = read(
        tmp_path,
        "# for the tool\nsecurity.protocol=SASL_SSL\nsasl.mechanism : SCRAM-SHA-512\n"
        f"bootstrap.servers=broker:9092\nacks=all\nsasl.jaas.config={login}\n",
    )

    assert {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "reader",
        "bootstrap.servers": "broker:9092",
        "sasl.password": f"${{property:{tmp_path / 'client.properties'}:sasl.password}}",
    } == settings
    assert "s3 cr=t;" == secrets.resolved(settings["sasl.password"])


def test_certificates(tmp_path: Path) -> None:
    """PEM stores become files of certificates and keys."""
    settings = read(
        tmp_path,
        "ssl.truststore.type=PEM\nssl.truststore.location=/etc/ca.pem\nssl.keystore.type=PEM\n"
        "ssl.keystore.location=/etc/me.pem\nssl.key.password=s3cret\n"
        "ssl.endpoint.identification.algorithm=https\n",
    )

    assert {
        "ssl.ca.location": "/etc/ca.pem",
        "ssl.certificate.location": "/etc/me.pem",
        "ssl.key.location": "/etc/me.pem",
        "ssl.key.password": f"${{property:{tmp_path / 'client.properties'}:ssl.key.password}}",
    } == settings


def test_java_grammar(tmp_path: Path) -> None:
    """Lines may be continued, blanks and escapes mean what they mean in Java."""
    text = (
        "! a comment\n\n  client.id = one\\\n    two\n"
        "security\\.protocol PLAINTEXT\nclient.id=na\\u00efve\\ \\=x\n"
    )

    assert {"security.protocol": "PLAINTEXT", "client.id": "naïve =x"} == read(tmp_path, text)


def test_access_tokens(tmp_path: Path) -> None:
    """Client credentials of Java's JAAS entry and of librdkafka's settings mean the same."""
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    url = "sasl.oauthbearer.token.endpoint.url=https://login.example/token\n"
    java = f"{url}sasl.jaas.config={module} clientId='me' clientSecret=\"s3cret\" scope='kafka';\n"
    librdkafka = (
        f"{url}sasl.oauthbearer.method=oidc\nsasl.oauthbearer.client.id=me\n"
        "sasl.oauthbearer.client.secret=s3cret\nsasl.oauthbearer.scope=kafka\n"
    )

    assert read(tmp_path, java.replace("'", '"')) == read(tmp_path, librdkafka)


REFUSED = {
    "sasl.login.class=s3cret": "sasl.login.class cannot be used",
    "enable.ssl.certificate.verification=false": "enable.ssl.certificate.verification cannot be",
    "ssl.truststore.location=/etc/trust.jks": "is a Java keystore",
    "ssl.truststore.password=s3cret": "ssl.truststore.password cannot be used",
    "ssl.endpoint.identification.algorithm=": "ssl.endpoint.identification.algorithm cannot be",
    "sasl.jaas.config=a.OtherLoginModule required password=s3cret;": "another form",
    "sasl.jaas.config=a.PlainLoginModule required password=s3cret;": "another form",
    "=value": "a line has no key",
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_has_no_meaning_here(tmp_path: Path, line: str) -> None:
    """What cannot be taken over is refused by its name, without its value."""
    with pytest.raises(UsageError) as caught:
        read(tmp_path, f"{line}\n")

    assert REFUSED[line] in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    """A file that is not there is named."""
    with pytest.raises(UsageError, match="nowhere"):
        read_client_properties(tmp_path / "nowhere")
