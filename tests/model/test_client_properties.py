"""What a client's properties file means here, Java's or librdkafka's."""

from pathlib import Path

import pytest

from toolkit.errors import UsageError
from toolkit.model import secrets
from toolkit.model.client_properties import read_client_properties, secret_in

LOGIN = "org.apache.kafka.common.security.{0}LoginModule required username={1} password={2};"


def read(tmp_path: Path, text: str) -> dict[str, str]:
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


def test_access_tokens_and_tickets(tmp_path: Path) -> None:
    """Client credentials of Java and of librdkafka mean the same; of Kerberos, a ticket is used."""
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    url = "sasl.oauthbearer.token.endpoint.url=https://login.example/token\n"
    java = f"{url}sasl.jaas.config={module} clientId='me' clientSecret=\"s3cret\" scope='kafka';\n"
    librdkafka = (
        f"{url}sasl.oauthbearer.method=oidc\nsasl.oauthbearer.client.id=me\n"
        "sasl.oauthbearer.client.secret=s3cret\nsasl.oauthbearer.scope=kafka\n"
    )
    login = f'{KERBEROS} useTicketCache=true doNotPrompt=true serviceName="kafka";'

    assert read(tmp_path, java.replace("'", '"')) == read(tmp_path, librdkafka)
    assert {"sasl.kerberos.service.name": "kafka"} == read(tmp_path, f"sasl.jaas.config={login}\n")


KERBEROS = "com.sun.security.auth.module.Krb5LoginModule required"
REFUSED = {
    "sasl.login.class=s3cret": "sasl.login.class cannot be used",
    "enable.ssl.certificate.verification=false": "enable.ssl.certificate.verification cannot be",
    "ssl.truststore.location=/etc/trust.jks": "is a Java keystore",
    "ssl.truststore.password=s3cret": "ssl.truststore.password cannot be used",
    "ssl.endpoint.identification.algorithm=": "ssl.endpoint.identification.algorithm cannot be",
    "sasl.jaas.config=a.PlainLoginModule required password=s3cret;": "that is not supported",
    f"sasl.jaas.config={KERBEROS} keyTab=s3cret;": "option keyTab with this value",
    f"sasl.jaas.config={KERBEROS} useKeyTab=true;": "option useKeyTab with this value",
    "sasl.login.callback.handler.class=s3cret": "sasl.login.callback.handler.class cannot",
    "sasl.mechanism=PLAIN\nsasl.mechanisms=OAUTHBEARER": "sets sasl.mechanism to another value",
    "sasl.username=me\nsasl.jaas.config=s3cret": "sasl.jaas.config is a setting of Java",
    "sasl.password:s3cret": "sasl.password is a setting of librdkafka",
    "sasl.password=${env:s3cret}": "sasl.password has a reference",
    "sasl.username=me\nsasl.password:s3cret": "a line is not name=value",
    "bootstrap.controllers=h:9093": "bootstrap.controllers cannot be used",
    "sasl_mechanism=PLAIN": "is not known. Try: did you mean sasl.mechanism?",
    "boostrap.servers=h:9092": "is not known. Try: did you mean bootstrap.servers?",
    "ssl.truststore.type=PEM\nssl.truststore.certificates=s3cret": "has no certificate in PEM",
    "ssl.keystore.type=PEM\nssl.keystore.key=s3cret": "has no private key in PEM",
    "ssl.truststore.certificates=s3cret": "is a Java keystore",
    "ssl.ca.location=": "ssl.ca.location is empty",
    "=value": "a line has no key",
}


@pytest.mark.parametrize("line", REFUSED)
def test_settings_without_a_meaning_here(tmp_path: Path, line: str) -> None:
    """A setting that cannot be used is refused by name, without its value."""
    with pytest.raises(UsageError) as caught:
        read(tmp_path, f"{line}\n")

    assert REFUSED[line] in str(caught.value)
    assert "s3cret" not in str(caught.value)


LIBRDKAFKA = {
    "a backslash": (b"pa\\ss", "pa\\ss"),
    "what would be an escape": (b"\\u0041\\n", "\\u0041\\n"),
    "a backslash at the end": (b"pass\\", "pass\\"),
    "equals signs and hashes": (b"=p=#!: w", "=p=#!: w"),
    "blanks around": (b" p w ", "p w"),
    "letters": ("f\u00fcr".encode(), "f\u00fcr"),
    "a next line": ("a\u0085b".encode(), "a\u0085b"),
}


@pytest.mark.parametrize("value", LIBRDKAFKA)
def test_a_password_of_librdkafka(tmp_path: Path, value: str) -> None:
    """A value is what stands after the first equals sign; in another encoding it is refused."""
    written, meant = LIBRDKAFKA[value]
    path = tmp_path / "client.properties"
    path.write_bytes(
        b"\xef\xbb\xbf# f\xfcr\r\nsasl.username=me\r\nsasl.password = %b\r\n" % written
    )

    assert "me" == read_client_properties(path)["sasl.username"]
    assert meant == secret_in(path, "sasl.password")
    path.write_bytes(b"sasl.username=me\nsasl.password=f\xfcr\n")
    with pytest.raises(UsageError, match=r"sasl\.password has letters that cannot be read"):
        read_client_properties(path)


def test_certificates_as_text(tmp_path: Path) -> None:
    """Certificates may stand in the file (KIP-651), on one line, too; of the key is a reference."""
    chain = "-----BEGIN CERTIFICATE----- {0} {0} -----END CERTIFICATE-----".format("A" * 40)
    key = chain.replace("CERTIFICATE", "PRIVATE KEY")
    settings = read(
        tmp_path,
        f"ssl.truststore.type=PEM\nssl.truststore.certificates={chain}\n"
        f"ssl.keystore.type=PEM\nssl.keystore.certificate.chain={chain}\nssl.keystore.key={key}\n",
    )
    block = f"-----BEGIN CERTIFICATE-----\n{'A' * 64}\n{'A' * 16}\n-----END CERTIFICATE-----\n"

    assert block == settings["ssl.ca.pem"] == settings["ssl.certificate.pem"]
    assert block.replace("CERTIFICATE", "PRIVATE KEY") == secrets.resolved(settings["ssl.key.pem"])


def test_a_secret_file_with_a_byte_order_mark(tmp_path: Path) -> None:
    """The mark that an editor puts before a password is not sent."""
    file = tmp_path / "password"
    file.write_bytes(b"\xef\xbb\xbfs3cret\r\n")

    assert "s3cret" == secrets.resolved(f"${{file:{file}}}")
