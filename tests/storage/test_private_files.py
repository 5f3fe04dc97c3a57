"""Files of a state directory are for its owner, or for the group that it is shared with."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from toolkit.cli import cli
from toolkit.model import CaptureMode, Cluster, GroupType, HoldNote, Snapshot
from toolkit.plan import Intent, Plan
from toolkit.storage import audit
from toolkit.storage.hold_files import HoldRecord, hold_path, keeper_lock, write_hold
from toolkit.storage.sightings import empty_groups
from toolkit.storage.state_folder import locked, open_to_others
from toolkit.storage.undo_records import write_undo_record

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PLAN = Plan(Intent.RESET, "reset payments to-earliest", "eu", "id", NOON, ())
HOLD = HoldRecord(
    run_id="run",
    cluster=Cluster("eu", "kafka:9092"),
    cluster_id="id",
    group_id="payments",
    type=GroupType.CONSUMER,
    assignor="uniform",
    wanted=(),
    prefer=CaptureMode.LOSSLESS,
    note=HoldNote("ana", "desk-1", NOON, None, "poison", 45.0),
)


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    """Have files made under some umask."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def use(state: Path) -> set[int]:
    """Write every kind of file that there is; return the permissions of all files and folders."""
    intent = audit.intent_entry(PLAN, audit.RunInfo("run", "ana", "desk-1", "why"), NOON)
    path = hold_path(state, "id", "payments")
    with locked(state, "id", "ana"):
        write_undo_record(state, "run", PLAN)
        audit.append(state, intent)
        write_hold(path, HOLD)
        empty_groups.record(state, Snapshot("eu", "id", NOON, (), (), {}))
        with keeper_lock(path):
            pass
    return {stat.S_IMODE(found.stat().st_mode) for found in (state, *state.rglob("*"))}


@pytest.mark.usefixtures("umask")
def test_a_state_directory_is_private(tmp_path: Path) -> None:
    """Whatever the umask, its folders are 0700 and its files 0600."""
    assert {0o700, 0o600} == use(tmp_path / "above" / "state")
    assert "" == open_to_others(tmp_path / "above" / "state")


@pytest.mark.usefixtures("umask")
def test_a_shared_state_directory_stays_shared(tmp_path: Path) -> None:
    """In a directory that a group may write, all is for that group too, and for nobody else."""
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o2770)

    assert {0o2770, 0o660} == use(state)
    assert "" == open_to_others(state)


def test_what_every_user_can_open_is_reported(tmp_path: Path) -> None:
    """A directory that is open to all is named by `audit verify`, which fails for flaws only."""
    state = tmp_path / "state"
    use(state)
    for path in (state, state / "audit.jsonl"):
        path.chmod(path.stat().st_mode | stat.S_IROTH | stat.S_IXOTH)
    done = CliRunner().invoke(cli, ["audit", "verify", "--state", str(state)])

    assert 0 == done.exit_code
    assert f"can open {state} and 1 more: run 'chmod -R o= {state}'" in done.stderr
    assert "intact: 1 entries" in done.stdout
