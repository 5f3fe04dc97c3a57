"""A client's settings file of the real tool, at a broker that asks who is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from click.testing import CliRunner
from secured import reader

from toolkit.cli import cli

LOGIN = """\
security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
    username="{1}" password="{0}";
"""


def run(address: str, file: Path, text: str) -> Any:
    """List the groups with a settings file of this text."""
    file.write_text(text, "utf-8")
    given = ("--bootstrap-server", address, "--command-config", str(file), "--list")
    return CliRunner().invoke(cli, ("consumer-groups", *given))


def test_it_leads_to_the_groups(secured: Any, tmp_path: Path) -> None:
    """A password and a certificate of the file are used, and a wrong password is never shown."""
    file = tmp_path / "client.properties"
    login = secured.sasl.bootstrap_servers, file, LOGIN.format("right", reader())
    certificate = (
        "security.protocol=SSL\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={secured.tls.settings['ssl.ca.location']}\n"
    )
    assert 0 == run(*login).exit_code
    assert 0 == run(secured.tls.bootstrap_servers, file, certificate).exit_code
    wrong = run(secured.sasl.bootstrap_servers, file, LOGIN.format("wr0ng", reader()))

    assert "authentication failed" in str(wrong.exception)
    assert "wr0ng" not in f"{wrong.output}{wrong.exception!r}"
