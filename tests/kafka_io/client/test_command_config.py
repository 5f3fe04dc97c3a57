"""A client's settings file of the real tool, at a broker that asks who is there."""

import socket
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from secured import reader

from toolkit.cli import cli
from toolkit.errors import ToolkitError

LOGIN = """\
security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
    username="{1}" password="{0}";
"""


def run(address: str, file: Path, text: str) -> Any:
    file.write_text(text, "utf-8")
    given = ("--bootstrap-server", address, "--command-config", str(file), "--list")
    return CliRunner().invoke(cli, ("consumer-groups", *given))


def test_it_leads_to_the_groups(secured: Any, tmp_path: Path) -> None:
    """A login of the file is used, and a wrong password is never shown."""
    address, file = secured.sasl.bootstrap_servers, tmp_path / "client.properties"
    right, wrong = (
        run(address, file, LOGIN.format(password, reader())) for password in ("right", "wr0ng")
    )

    assert 0 == right.exit_code
    assert "authentication failed" in str(wrong.exception)
    assert "wr0ng" not in f"{wrong.output}{wrong.exception!r}"


def refusal(*options: str) -> ToolkitError:
    error = CliRunner().invoke(cli, options).exception
    assert isinstance(error, ToolkitError)
    return error


def test_hints_name_where_the_settings_are(secured: Any, tmp_path: Path) -> None:
    """A wrong setting is to be corrected in the file that has it, or where an option is missing."""
    address, file = secured.sasl.bootstrap_servers, tmp_path / "client.properties"
    file.write_text(LOGIN.format("wr0ng", reader()), "utf-8")
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(f"clusters: {{eu: {{bootstrap.servers: '{address}'}}}}")
    both = tmp_path / "both.yaml"
    both.write_text(
        f"clusters: {{eu: {{bootstrap.servers: '{address}', properties: client.properties}}}}"
    )
    nothing = tmp_path / "other.yaml"
    nothing.write_text("clusters: {us: {bootstrap.servers: '127.0.0.1:1'}}")
    tool = ("consumer-groups", "--list", "--bootstrap-server", address, "--fleet")
    delete = ("delete-groups", "--group", "g", "--dry-run", "--fleet")
    hints = [
        refusal(*tool, str(nothing), "--command-config", str(file)).hint,
        refusal(*tool, str(nothing)).hint,
        refusal(*tool, str(fleet)).hint,
        refusal(*delete, str(nothing), "--cluster", address).hint,
        refusal(*delete, str(both)).hint,
    ]

    login = "check sasl.mechanism, sasl.username and sasl.password in "
    protocol = "set security.protocol to SASL_PLAINTEXT, and sasl.mechanism, in "
    assert hints == [
        f"{login}{file}",
        f"{protocol}a file for --command-config",
        f"{protocol}the fleet file",
        f"{protocol}an entry of the fleet file ('offsetbook fleet add')",
        f"{login}its properties file or the fleet file",
    ]


@pytest.mark.parametrize("timeout", [(), ("--timeout", "400")])
def test_a_limit_of_the_file(timeout: tuple[str, ...], tmp_path: Path) -> None:
    """The file's request.timeout.ms is the limit, unless --timeout gives another."""
    file = tmp_path / "client.properties"
    file.write_text("request.timeout.ms=300\n", "utf-8")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        options = ("--bootstrap-server", address, "--command-config", str(file))
        error = refusal("consumer-groups", "--list", *options, *timeout)

    assert f"within {'0.4' if timeout else '0.3'} s" in error.problem
    assert "--timeout sets the limit" in error.hint
