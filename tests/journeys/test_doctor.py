"""What `doctor` finds about a cluster, about holds and about other packages of our names."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import time_machine
from hold_records import hold_record
from secured import Secured

from toolkit.journeys.doctor import doctor
from toolkit.journeys.doctor.check_row import CheckRow, CheckStatus
from toolkit.journeys.doctor.cluster_checks import check_cluster, permission_rows
from toolkit.journeys.doctor.this_machine import machine_rows
from toolkit.kafka_io.cluster_facts import MAX_NAMES, AclOperation, Permissions, release_of
from toolkit.model import Cluster, Policy
from toolkit.sandbox.jars import VERSION
from toolkit.sandbox.roles import ROLES
from toolkit.storage.hold_files import HoldStatus, hold_path, keeper_lock, write_hold

READING = {"describe groups", "describe topics", "read offsets topic"}
# As docs/acls.md has it; whether offsets can be moved is told to nobody.
CHANGING = {
    "viewer": set[str](),
    "pipeline": {"delete offsets", "delete groups"},
    "operator": {"delete offsets", "delete groups", "commit offsets", "alter group configs"},
}


def found_on(cluster: Cluster) -> dict[str, CheckRow]:
    return {row.check: row for row in check_cluster(cluster)}


def permissions(rows: dict[str, CheckRow], status: str) -> set[str]:
    """Return what to do has this status."""
    begin = "permission: "
    return {name.removeprefix(begin) for name, row in rows.items() if row.status == status} & {
        name.removeprefix(begin) for name in rows if name.startswith(begin)
    }


@pytest.mark.parametrize("role", ROLES)
def test_permissions_are_those_of_the_role(secured: Secured, role: str) -> None:
    """What brokers report is what docs/acls.md gives the role; a read-only cluster needs less."""
    cluster = secured.role(role)

    found = found_on(cluster)
    read_only = found_on(replace(cluster, policy=Policy(read_only=True)))

    assert "ok" == found["connection"].status, found["connection"]
    assert READING | CHANGING[role] == permissions(found, "ok")
    assert CHANGING["operator"] - CHANGING[role] == permissions(found, "warn")
    assert {"move offsets"} == permissions(found, "unknown")
    assert set() == permissions(read_only, "warn")


def test_some_of_the_groups_is_a_warning_with_the_number() -> None:
    """A permission on some names is distinguished from one that brokers do not report."""
    read, both = frozenset({AclOperation.READ}), frozenset({AclOperation.READ, AclOperation.DELETE})
    rights = Permissions(
        cluster=None,
        any_group=frozenset(),
        any_topic=read,
        offsets_topic=None,
        groups={"a": read, "b": both, "c": frozenset()},
        topics={f"t{number}": read for number in range(MAX_NAMES)},
        has_offsets_topic=True,
    )
    rows = permission_rows(Cluster("eu", "b:1"), rights, reports_group_configs=True)
    found = {row.check: row for row in rows}

    assert {"describe groups", "read offsets topic", "move offsets"} == (
        permissions(found, "unknown")
    )
    assert {"describe topics", *CHANGING["operator"]} == permissions(found, "warn")
    assert "Read on 2 of 3 groups, Read on 500 of the first 500 topics" == (
        found["permission: commit offsets"].finding
    )
    assert "Delete on 1 of 3 groups" == found["permission: delete groups"].finding
    assert "AlterConfigs on 0 of 3 groups" == found["permission: alter group configs"].finding


def test_hidden_groups_and_topics_are_a_warning(secured: Secured) -> None:
    """A user without ACLs learns that they are hidden."""
    certificate = secured.authority.issue("stranger").both
    settings = {**secured.tls.settings, "ssl.certificate.location": str(certificate)}

    found = found_on(Cluster("secured", secured.addresses["MUTUAL"], settings))

    assert READING <= permissions(found, "warn")
    assert "Describe on Cluster is missing" in found["permission: describe groups"].finding
    assert "Describe on Topic:* is missing" in found["permission: describe topics"].finding
    assert "unknown" == found["clock"].status
    assert "CLUSTER_AUTHORIZATION_FAILED" in found["clock"].finding.upper().replace(" ", "_")


def test_the_release_is_that_of_the_brokers(bare_cluster: Cluster, kafka_39: Cluster) -> None:
    """`metadata.version` shows the release; 3.9 does not report who may alter group configs."""
    newest, oldest = found_on(bare_cluster), found_on(kafka_39)

    assert f"Apache Kafka {VERSION.rpartition('.')[0]}" in newest["broker version"].finding
    assert "Apache Kafka 3.9 (metadata.version 21 in use, 21 supported)" == (
        oldest["broker version"].finding
    )
    assert {"alter group configs", "move offsets"} == permissions(oldest, "unknown")
    assert {"ok"} == {found["connection"].status for found in (newest, oldest)}


@pytest.mark.parametrize(
    ("level", "release"),
    [
        *((6, ""), (7, "3.3"), (15, "3.7"), (19, "3.7"), (21, "3.9"), (22, "4.0")),
        *((29, "4.2"), (30, "4.3"), (31, "4.4"), (33, "4.4 or newer"), (34, "newer than 4.4")),
    ],
)
def test_a_level_belongs_to_the_release_that_added_it(level: int, release: str) -> None:
    """The newest known level may also be that of a later release, which is not guessed."""
    assert release == release_of(level)


def test_the_clock_of_the_controller_is_compared(bare_cluster: Cluster) -> None:
    """It has the time of this machine here, and is an hour ahead of a clock that is behind."""
    here = found_on(bare_cluster)["clock"]
    with time_machine.travel(datetime.now(UTC) - timedelta(hours=1)):
        behind = found_on(bare_cluster)["clock"]

    assert ("ok", "warn") == (here.status, behind.status)
    number = re.compile(r"controller 1 is ([+-][\d.]+) s .*± [\d.]+ s")
    hour, none = (float(number.findall(row.finding)[0]) for row in (behind, here))
    # Processes of one machine do not see its clock alike, and it may be set meanwhile.
    assert (3600, 0) == pytest.approx((hour, none), abs=60)


def test_a_hold_without_a_keeper_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hold file whose lock is free is a warning that names the group."""
    monkeypatch.setenv("OFFSETBOOK_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("OFFSETBOOK_FLEET", str(tmp_path / "none.yaml"))
    path = hold_path(tmp_path / "state", "abc", "billing")
    write_hold(path, hold_record(status=HoldStatus.HELD))

    def found() -> tuple[str, str]:
        (row,) = (r for r in doctor().rows if (r.subject, r.check) == ("state directory", "holds"))
        return str(row.status), row.finding

    with keeper_lock(path):
        kept = found()

    assert ("ok", "none without a keeper") == kept
    assert ("warn", "1 hold without a keeper, of billing") == found()


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("other/__init__.py", "warn: also installed by acme-widgets"),
        ("widgets/__init__.py", "error: another package 'widgets' is imported (by acme-widgets)"),
    ],
)
def test_another_package_named_toolkit_is_found(tmp_path: Path, file: str, expected: str) -> None:
    """A warning while offsetbook's is imported, an error once the other one is."""
    info = tmp_path / "acme_widgets-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: acme-widgets\nVersion: 1.0\n")
    (info / "top_level.txt").write_text("widgets\n")
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("")
    show = (
        "from toolkit.journeys.doctor.this_machine import machine_rows\n"
        "rows = {row.check: row for row in machine_rows()}\n"
        'print(f\'{rows["import widgets"].status}: {rows["import widgets"].finding}\')'
    )
    done = subprocess.run(
        [sys.executable, "-c", show],
        cwd=tmp_path.parent,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )

    assert expected == done.stdout.strip()


def test_a_kernel_of_old_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JupyterLab takes the first kernel spec of the name, which may be of another Python."""

    def row() -> CheckRow:
        (found,) = (row for row in machine_rows() if row.check == "Jupyter kernel")
        return found

    assert (CheckStatus.OK, "python3 is this Python") == (row().status, row().finding)
    folder = tmp_path / "kernels" / "python3"
    folder.mkdir(parents=True)
    spec = {"argv": ["/gone/bin/python", "-m", "ipykernel"], "display_name": "Python 3"}
    (folder / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))

    assert CheckStatus.WARN is row().status
    assert f"JupyterLab starts /gone/bin/python for notebooks, by {folder}" == row().finding
