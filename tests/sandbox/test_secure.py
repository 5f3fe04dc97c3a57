"""A sandbox with TLS, logins and ACLs."""

from pathlib import Path

import pytest

from toolkit.errors import UsageError
from toolkit.kafka_io.client.connection import Connection
from toolkit.sandbox.broker import reserve_ports
from toolkit.sandbox.fleet import Sandbox
from toolkit.sandbox.jars import VERSION
from toolkit.sandbox.roles import ROLES
from toolkit.storage.fleet_file import load_fleet


@pytest.mark.starts("a broker with a secured listener")
def test_each_role_has_a_fleet_file_that_logs_in(tmp_path: Path) -> None:
    """The fleet files lead over TLS to the same cluster; no password is in them, or readable."""
    sandbox = Sandbox(tmp_path)
    try:
        sandbox.up(["eu"], seed=False, secured=True)
        files = {role: tmp_path / f"{role}.yaml" for role in ROLES}
        fleets = {role: load_fleet(path)["eu"] for role, path in files.items()}
        ids = set()
        for cluster in fleets.values():
            with Connection(cluster) as connection:
                ids.add(connection.cluster_id)
    finally:
        sandbox.down()

    assert 1 == len(ids)
    assert load_fleet(sandbox.fleet_file)["eu"] == fleets["operator"]
    assert {(role, "SASL_SSL") for role in ROLES} == {
        (c.settings["sasl.username"], c.settings["security.protocol"]) for c in fleets.values()
    }
    for role, path in files.items():
        password = tmp_path / "eu" / "passwords" / role
        assert password.read_text() not in path.read_text()
        assert 0 == password.stat().st_mode & 0o077


def test_a_cluster_that_is_not_secured_stays_as_it_is(tmp_path: Path) -> None:
    """What has data without ACLs is not secured later; the error says how to go on."""
    (tmp_path / "eu").mkdir()
    reserve_ports(tmp_path / "eu", (20_001, 20_002), VERSION)

    with pytest.raises(UsageError, match="without TLS and ACLs") as caught:
        Sandbox(tmp_path).up(["eu"], secured=True)

    assert "--fresh" in caught.value.hint
