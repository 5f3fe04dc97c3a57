"""`offsetbook fleet`: a cluster is added once it answers, and no secret is copied."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import yaml
from main_program import call_main
from secured import Secured

from toolkit.model import Cluster
from toolkit.storage.fleet_file import load_fleet

Fleet = Callable[..., "CompletedProcess[str]"]
BY_HAND = (
    "# ours\nclusters:\n   eu:   # the first\n     bootstrap.servers: b:1\n\ntimeout: 9s # all\n"
)


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    def run(*arguments: str, **variables: str | None) -> CompletedProcess[str]:
        own = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "OFFSETBOOK_FLEET": None}
        return call_main(["fleet", *arguments], folder=tmp_path, **{**own, **variables})

    return run


def client_properties(folder: Path, secured: Secured) -> Path:
    """Return Java's client.properties of the operator, with the password in it."""
    cluster = secured.role("operator")
    password = (secured.broker.directory / "passwords" / "operator").read_text().strip()
    path = folder / "client.properties"
    path.write_text(
        "# as for kafka-consumer-groups.sh\nsecurity.protocol=SASL_SSL\n"
        "sasl.mechanism=SCRAM-SHA-512\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="operator" \\\n  password="{password}";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={cluster.settings['ssl.ca.location']}\n"
    )
    return path


def test_a_cluster_is_added_from_client_properties(
    fleet: Fleet, tmp_path: Path, secured: Secured
) -> None:
    """The entry refers to the file, whose password stays there; check and list then know it."""
    path = tmp_path / "fleet.yaml"
    path.write_text(BY_HAND)
    properties = client_properties(tmp_path, secured)
    address = secured.role("operator").bootstrap_servers
    how = ("--bootstrap-server", address, "--command-config", str(properties))

    added = fleet("add", "us", *how)
    again = fleet("add", "us", *how)
    checked = fleet("check", "us", "--output", "json")
    listed = fleet("list", "--output", "json")

    assert 0 == added.returncode, added.stderr
    assert "Read on " in added.stdout
    assert f"cluster us added to {path}" in added.stderr
    entry = f"   us:\n     bootstrap.servers: {address}\n     properties: client.properties\n"
    assert BY_HAND.replace("b:1\n", f"b:1\n{entry}") == path.read_text()
    assert 2 == again.returncode
    assert "'us' is already in fleet file" in again.stderr
    assert "edit its entry there" in again.stderr
    assert 0 == checked.returncode
    assert {"us"} == {row["subject"] for row in json.loads(checked.stdout)}
    assert {
        "cluster": "us",
        "bootstrap_servers": address,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "read_only": False,
        "properties": "client.properties",
    } == json.loads(listed.stdout)[1]


def test_settings_are_given_as_references(fleet: Fleet, tmp_path: Path, secured: Secured) -> None:
    """A cluster that is refused is not saved; with the right password it is, as a reference."""
    settings = dict(secured.sasl.settings) | {"sasl.password": "${env:EU_PASSWORD}"}
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    add = ("add", "eu", "--bootstrap-server", secured.sasl.bootstrap_servers, *words)
    path = tmp_path / "fleet.yaml"

    wrong = fleet(*add, EU_PASSWORD="hunter2")  # noqa: S106 - a wrong one
    nothing = path.exists()
    plain = fleet(*add[:4], "--set", "sasl.password=hunter2", "--no-check")
    unchecked = fleet(*add, "--no-check", "--fleet", "later.yaml")
    right = fleet(*add, EU_PASSWORD="right")  # noqa: S106 - the secured broker's own

    assert (1, 2, 0, 0) == tuple(done.returncode for done in (wrong, plain, unchecked, right)), (
        right.stderr
    )
    assert "cluster eu was not added: connecting to cluster eu: authentication" in wrong.stderr
    assert "--no-check adds it anyway" in wrong.stderr
    assert not nothing
    assert "sasl.password must be a reference" in plain.stderr
    assert "hunter2" not in wrong.stderr + plain.stderr
    entry = {"bootstrap.servers": secured.sasl.bootstrap_servers, **settings}
    assert {"clusters": {"eu": entry}} == yaml.safe_load(path.read_text())
    assert path.read_text() == (tmp_path / "later.yaml").read_text()
    assert load_fleet(path)["eu"] == Cluster("eu", entry.pop("bootstrap.servers"), settings)


def test_a_certificate_is_found_from_the_fleet_file(fleet: Fleet, tmp_path: Path) -> None:
    """It is named from where the command runs, and written as the file has to have it."""
    words = ("--set", "security.protocol=SSL", "--set", "ssl.ca.location=ca.pem", "--no-check")

    done = fleet("add", "us", "--bootstrap-server", "b:1", *words, "--fleet", "ops/fleet.yaml")

    assert 0 == done.returncode, done.stderr
    (added,) = load_fleet(tmp_path / "ops" / "fleet.yaml").values()
    assert str(tmp_path / "ca.pem") == added.settings["ssl.ca.location"]


def test_the_sandbox_file_is_left_alone(fleet: Fleet, tmp_path: Path) -> None:
    """The sandbox rewrites its fleet file, so a cluster is added to a file of its own."""
    sandbox = tmp_path / ".sandbox" / "fleet.yaml"
    sandbox.parent.mkdir()
    sandbox.write_text(BY_HAND)

    done = fleet("add", "us", "--bootstrap-server", "b:1", "--set", "read_only=yes", "--no-check")

    assert 0 == done.returncode, done.stderr
    assert BY_HAND == sandbox.read_text()
    assert load_fleet(tmp_path / "fleet.yaml")["us"].policy.read_only


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--set", "hunter2"), "write SETTING=VALUE"),
        (("--set", "sasl.user=x"), "unknown setting 'sasl.user'; did you mean 'sasl.username'?"),
        ((), "has no bootstrap.servers"),
        (("--command-config", "none"), "File 'none' does not exist"),
    ],
)
def test_a_cluster_that_cannot_be_added_is_a_usage_error(
    fleet: Fleet, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    """The message names what is wrong, but no possible secret; nothing is written."""
    done = fleet("add", "eu", *words, "--no-check")

    assert 2 == done.returncode
    assert message in done.stderr
    assert "hunter2" not in done.stderr
    assert [] == list(tmp_path.iterdir())
