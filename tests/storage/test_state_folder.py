import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolkit.errors import Blocked, FleetFileError, StateFileError
from toolkit.storage.formats.atomic_files import file_name
from toolkit.storage.state_folder import locked, state_dir

FLEET = "clusters:\n  eu:\n    bootstrap.servers: b:1\n"
HOLDER = """
import signal, sys
from pathlib import Path
from toolkit.storage.state_folder import locked
with locked(Path(sys.argv[1]), "cluster-1", "ada"):
    print("held", flush=True)
    signal.pause()
"""


@pytest.fixture(autouse=True)
def _nothing_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OFFSETBOOK_STATE", raising=False)
    monkeypatch.delenv("OFFSETBOOK_FLEET", raising=False)
    monkeypatch.setattr("platformdirs.user_config_dir", lambda _: str(tmp_path / "config"))
    monkeypatch.setattr("platformdirs.user_state_dir", lambda _: str(tmp_path / "user"))
    monkeypatch.chdir(tmp_path)


def test_lookup_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable wins, then what the fleet file says, then the user's folder."""
    fleet = tmp_path / "fleets" / "fleet.yaml"
    fleet.parent.mkdir()

    assert tmp_path / "user" == state_dir()
    fleet.write_text(FLEET)
    assert tmp_path / "user" == state_dir(fleet)
    fleet.write_text(FLEET + "state: records\n")
    assert tmp_path / "fleets/records" == state_dir(fleet)
    monkeypatch.setenv("OFFSETBOOK_FLEET", "fleets/fleet.yaml")
    assert tmp_path / "fleets/records" == state_dir()
    fleet.write_text(FLEET + "state: /srv/records\n")
    assert Path("/srv/records") == state_dir()
    fleet.write_text(FLEET + "state: ~/records\n")
    assert Path.home() / "records" == state_dir()
    monkeypatch.setenv("OFFSETBOOK_STATE", "here")
    assert tmp_path / "here" == state_dir(fleet)


def test_a_wrong_fleet_file_is_not_passed_over(tmp_path: Path) -> None:
    """Records never go elsewhere because the file that says where cannot be read."""
    (tmp_path / "fleet.yaml").write_text("state: [\n")

    with pytest.raises(FleetFileError, match="line 2"):
        state_dir()
    with pytest.raises(FleetFileError, match="cannot be read"):
        state_dir(tmp_path / "missing.yaml")


def check_refused(state: Path, words: str) -> None:
    """Check that bob may not change the cluster, for a reason."""
    with pytest.raises(Blocked, match=words), locked(state, "cluster-1", "bob"):
        pass


def test_a_second_change_of_a_cluster_is_refused(tmp_path: Path) -> None:
    """The message has who is changing it since when; another cluster is free."""
    with locked(tmp_path, "cluster-1", "ada"), locked(tmp_path, "cluster-2", "ada"):
        who = rf"being changed by ada since 20.* \(process {os.getpid()} on "
        check_refused(tmp_path, f"cluster cluster-1 is {who}")
        with (
            pytest.raises(Blocked, match="cluster eu is being changed by ada"),
            locked(tmp_path, "cluster-1", "bob", name="eu"),
        ):
            pass
    with locked(tmp_path, "cluster-1", "bob"):
        pass


def test_a_killed_holder_frees_the_cluster(tmp_path: Path) -> None:
    """The lock of another process counts while it lives and not a moment longer."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert "held\n" == holder.stdout.readline()
        check_refused(tmp_path, rf"by ada since .* \(process {holder.pid} on ")
        os.kill(holder.pid, signal.SIGKILL)

    with locked(tmp_path, "cluster-1", "bob"):
        pass


def test_the_content_of_a_lock_file(tmp_path: Path) -> None:
    """A killed holder's name is not mixed with the next one's; an unsigned holder counts."""
    lock = tmp_path / "locks/cluster-1.lock"
    lock.parent.mkdir()
    lock.write_text("x" * 500)

    with locked(tmp_path, "cluster-1", "ada"):
        check_refused(tmp_path, "is being changed by ada")
        lock.write_text("")
        check_refused(tmp_path, "another process, which holds")


def test_no_place_for_a_lock(tmp_path: Path) -> None:
    """Where no lock file can be made, nothing is changed; the disk is not said to be full."""
    (tmp_path / "locks").touch()

    with (
        pytest.raises(StateFileError, match="locks cannot be written") as caught,
        locked(tmp_path, "x", "ada"),
    ):
        pass
    assert "check that directory and its permissions" == caught.value.hint


def test_the_name_of_a_cluster_leads_nowhere_else(tmp_path: Path) -> None:
    """Whatever a cluster calls itself, its lock is a file in the folder of locks."""
    state = tmp_path / "state"
    names = ["../../x", "..", "a/b", "a\0b", "x" * 5000, "\ud800", ""]
    for name in names:
        with locked(state, name, "ada"):
            pass

    assert len(names) == len(list((state / "locks").iterdir()))
    assert ["state"] == [path.name for path in tmp_path.iterdir()]


@given(name=st.text(), other=st.text())
@example("..", "%2E%2E")
@example("", "x" * 5000)
def test_file_names_are_plain_and_unique(name: str, other: str) -> None:
    """A file name has no folder in it, is never long, and belongs to one name only."""
    made = file_name(name)

    assert Path(made).name == made
    assert not made.startswith(".")
    assert len(made.encode()) <= 100
    assert (name == other) == (made == file_name(other))
