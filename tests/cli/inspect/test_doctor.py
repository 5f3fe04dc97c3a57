"""What is attached to a bug report: what works, what does not, and nothing that is secret."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from secured import Secured

from toolkit.cli.inspect.doctor import command as doctor_command
from toolkit.model import Cluster

PLANTED = "pl4nted"
Doctor = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def doctor(tmp_path: Path) -> Doctor:
    """Return a function that runs `offsetbook doctor` in a folder, with only these variables."""
    program = Path(sys.executable).with_name("offsetbook")

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        home = {"HOME": str(tmp_path / "home"), "LANG": "C.UTF-8"}
        return subprocess.run(
            [program, "doctor", *arguments],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], **home, **variables},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    return run


def checks(done: subprocess.CompletedProcess[str]) -> dict[tuple[str, str], dict[str, str]]:
    return {(row["subject"], row["check"]): row for row in json.loads(done.stdout)}


def test_without_java_and_without_a_fleet_file(doctor: Doctor) -> None:
    """A new machine gets its report: Java and the fleet file are warnings, and nothing failed."""
    done = doctor("--output", "json", PATH="")
    found = checks(done)

    assert 0 == done.returncode, done.stderr
    assert "warn" == found["this machine", "Java"]["status"]
    assert "need Java 17 or newer" in found["this machine", "Java"]["hint"]
    assert "warn" == found["fleet file", "used"]["status"]
    assert "none was found" == found["fleet file", "used"]["finding"]
    assert "ok" == found["this machine", "kafka-python"]["status"]
    assert "the user's state directory" in found["state directory", "used"]["finding"]


def test_a_named_cluster_that_is_not_checked_is_an_error(
    doctor: Doctor, bare_cluster: Cluster
) -> None:
    """Without a fleet file a name says nothing; an address beside it is checked all the same."""
    address = bare_cluster.bootstrap_servers
    alone = doctor("--output", "json", "--cluster", "eu")
    both = doctor("--output", "json", "--cluster", "eu", "--cluster", address)
    row = checks(alone)["eu", "connection"]

    assert (1, 4) == (alone.returncode, both.returncode)
    assert ("error", "not checked; fleet file: none was found") == (row["status"], row["finding"])
    assert "--cluster HOST:PORT" in row["hint"]
    assert row == checks(both)["eu", "connection"]
    assert "ok" == checks(both)[address, "connection"]["status"]


def test_a_broken_fleet_file_is_a_row(doctor: Doctor, tmp_path: Path) -> None:
    """A mistake is named by its place only: what is written there may be a secret."""
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(f"clusters:\n  eu:\n    sasl.pasword {PLANTED}: {PLANTED}\n")
    setting = doctor("--output", "json")
    fleet.write_text(f"clusters: *{PLANTED}\n")
    no_yaml = doctor("--output", "json", "--cluster", "eu")
    row = checks(setting)["fleet file", "used"]

    assert (1, 1) == (setting.returncode, no_yaml.returncode)
    assert "fleet.yaml: it cannot be used: line 3, column 5" == row["finding"]
    assert "'offsetbook fleet list' tells what is wrong" == row["hint"]
    assert "line 1, column 11" in checks(no_yaml)["fleet file", "used"]["finding"]
    assert "error" == checks(no_yaml)["eu", "connection"]["status"]
    assert "unknown" == checks(no_yaml)["state directory", "used"]["status"]
    assert PLANTED not in setting.stdout + setting.stderr + no_yaml.stdout + no_yaml.stderr


def test_a_dead_cluster_is_a_row(doctor: Doctor, tmp_path: Path, bare_cluster: Cluster) -> None:
    """With one cluster of two the exit code is 4; with the dead one alone it is 1."""
    servers = {"live": bare_cluster.bootstrap_servers, "dead": "127.0.0.1:1"}
    clusters = {name: {"bootstrap.servers": address} for name, address in servers.items()}
    (tmp_path / "fleet.yaml").write_text(yaml.safe_dump({"clusters": clusters}))

    both = doctor("--output", "json")
    dead = doctor("--cluster", "dead")

    assert (4, 1) == (both.returncode, dead.returncode)
    assert "1 error, " in both.stderr
    assert "ok" == checks(both)["live", "connection"]["status"]
    assert "error" == checks(both)["dead", "connection"]["status"]
    assert "cannot connect" in checks(both)["dead", "connection"]["finding"]
    assert "4 an error" in " ".join(str(doctor_command.help).split())


def planted_fleet(folder: Path, secured: Secured) -> dict[str, dict[str, str]]:
    """Return clusters whose settings have planted values, and make their files."""
    (folder / PLANTED).mkdir()
    password, authority = folder / PLANTED / "password", folder / PLANTED / "other-ca.pem"
    password.write_text(f"{PLANTED}-password\n")
    authority.write_bytes(secured.authority.issue("expired", days=-1).certificate.read_bytes())
    properties = folder / f"{PLANTED}.properties"
    properties.write_text(
        f"bootstrap.servers={secured.addresses['PASSWORD']}\n"
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{PLANTED}-user" password="{PLANTED}-password";\n'
    )
    login = {
        "bootstrap.servers": secured.addresses["PASSWORD"],
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": f"{PLANTED}-user",
    }
    tls = {"bootstrap.servers": secured.addresses["TLS"], "security.protocol": "SSL"}
    token = {
        "bootstrap.servers": secured.addresses["TOKEN"],
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
    }
    return {
        "wrong-password": {**login, "sasl.password": "${env:EU_PASSWORD}"},
        "wrong-in-file": {**login, "sasl.password": f"${{file:{password}}}"},
        "no-such-file": {**login, "sasl.password": f"${{file:{folder / PLANTED / 'none'}}}"},
        "no-such-variable": {**login, "sasl.password": f"${{env:{PLANTED.upper()}}}"},
        "wrong-in-properties": {"properties": str(properties)},
        "unknown-host": {"bootstrap.servers": f"{PLANTED}.invalid:9092"},
        "no-port": {"bootstrap.servers": PLANTED},
        "other-ca": {**tls, "ssl.ca.location": str(authority)},
        "no-ca": {**tls, "ssl.ca.location": str(folder / PLANTED / "none.pem")},
        "no-token-command": {
            **token,
            "sasl.oauthbearer.token.command": f"/{PLANTED}/token --secret {PLANTED}",
        },
        "no-token-endpoint": {
            **token,
            "sasl.oauthbearer.token.endpoint.url": f"http://{PLANTED}.invalid/{PLANTED}",
            "sasl.oauthbearer.client.id": f"{PLANTED}-id",
            "sasl.oauthbearer.client.secret": "${env:EU_PASSWORD}",
        },
        "works": {"bootstrap.servers": secured.plain.bootstrap_servers, "client.id": PLANTED},
    }


# The command, in each form of output.
EVERY_FORM = """
import sys
from toolkit.cli.inspect.doctor import write_checks
from toolkit.journeys.doctor import doctor
report = doctor()
for form in ("table", "json", "csv"):
    write_checks(report, form)
sys.exit(report.exit_code)
"""


def test_no_secret_is_shown(tmp_path: Path, secured: Secured) -> None:
    """Whatever goes wrong, no value of a setting, of a variable or of a file is in any output."""
    clusters = planted_fleet(tmp_path, secured)
    fleet, state = tmp_path / PLANTED / "fleet.yaml", tmp_path / PLANTED / "state"
    fleet.write_text(yaml.safe_dump({"clusters": clusters}, sort_keys=False))
    state.mkdir()
    (state / "audit.jsonl").write_text(PLANTED)
    variables = {
        "OFFSETBOOK_FLEET": str(fleet),
        "OFFSETBOOK_STATE": str(state),
        "OFFSETBOOK_REASON": PLANTED,
        "EU_PASSWORD": f"{PLANTED}-password",
        "JAVA_HOME": f"/{PLANTED}",
    }
    done = subprocess.run(
        [sys.executable, "-c", EVERY_FORM],
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )

    assert 4 == done.returncode, done.stderr
    assert "$OFFSETBOOK_FLEET: 12 clusters" in done.stdout
    assert "every user of this machine can open STATE" in done.stdout
    for name in clusters:
        assert 3 <= done.stdout.count(name)
    assert "authentication failed" in done.stdout
    assert "<ssl.ca.location>" in done.stdout
    assert PLANTED.lower() not in (done.stdout + done.stderr).lower()
