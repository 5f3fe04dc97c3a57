"""Files: private, replaced in one piece, and whatever somebody names as input."""

import json
import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from hold_records import hold_record
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolkit.cli import cli
from toolkit.errors import StateFileError, UsageError
from toolkit.model import Snapshot
from toolkit.model.client_properties import read_client_properties
from toolkit.model.input_files import read_input
from toolkit.plan import Intent, Plan
from toolkit.runbooks.runbook_page import read_runbook
from toolkit.runner.parameters import read_parameters, read_texts
from toolkit.runner.report_of import report_of
from toolkit.storage import audit
from toolkit.storage.fleet_file import load_fleet
from toolkit.storage.formats import atomic_files
from toolkit.storage.formats.atomic_files import write_whole
from toolkit.storage.hold_files import hold_path, keeper_lock, write_hold
from toolkit.storage.offsets_files import read_offsets
from toolkit.storage.plan_files import read_plan
from toolkit.storage.sightings import record_empty
from toolkit.storage.state_folder import locked, open_to_others
from toolkit.storage.undo_records import write_undo_record

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PLAN = Plan(Intent.RESET, "reset payments to-earliest", "eu", "id", NOON, ())


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
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
        assert [intent.run] == [entry.run for entry in audit.unfinished(state)]  # makes the index
        write_hold(path, hold_record())
        record_empty(state, Snapshot("eu", "id", NOON, (), (), {}))
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
    """In a directory that a group may write, all files are for that group, and for no others."""
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o2770)

    assert {0o2770, 0o660} == use(state)
    assert "" == open_to_others(state)


def test_a_directory_open_to_all_is_reported(tmp_path: Path) -> None:
    """`audit verify` names it, and fails for flaws only."""
    state = tmp_path / "state"
    use(state)
    for path in (state, state / "audit.jsonl"):
        path.chmod(path.stat().st_mode | stat.S_IROTH | stat.S_IXOTH)
    done = CliRunner().invoke(cli, ["audit", "verify", "--state", str(state)])

    assert 0 == done.exit_code
    assert f"can open {state} and 1 more: run 'chmod -R o= {state}'" in done.stderr
    assert "intact: 1 entry in" in done.stdout


def link(path: Path) -> None:
    target = path.with_name("target")
    target.write_text("mine")
    path.symlink_to(target)


def listening_socket(path: Path) -> None:
    """Make a socket; a path of one is short."""
    here = Path.cwd()
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)
    os.chdir(here)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (link, "a symbolic link"),
        (lambda path: path.symlink_to(path.with_name("nothing")), "a symbolic link"),
        (os.mkfifo, "a named pipe"),
        (Path.mkdir, "a directory"),
        (listening_socket, "a socket"),
    ],
)
def test_a_special_file_stays(make: Callable[[Path], object], kind: str, tmp_path: Path) -> None:
    """It is named, and neither replaced nor written to."""
    path = tmp_path / "out"
    make(path)
    before = path.lstat()

    with pytest.raises(StateFileError, match=f"out is {kind}; it was not replaced"):
        write_whole(path, "new")

    assert (before.st_ino, before.st_mode) == (path.lstat().st_ino, path.lstat().st_mode)
    assert {"out", "target"} >= {one.name for one in tmp_path.iterdir()}


def test_a_device_stays() -> None:
    """Also as root: replacing /dev/null would make every program write to that file."""
    with pytest.raises(StateFileError, match="is a device; it was not replaced"):
        write_whole(Path("/dev/null"), "new")
    assert Path("/dev/null").is_char_device()


def test_a_regular_file_is_replaced(tmp_path: Path) -> None:
    """Whole, and nothing is left beside it; a concurrent reader sees the old one to its end."""
    path = tmp_path / "out"
    path.write_text("old")
    with path.open() as reader:
        write_whole(path, "new")
        assert "old" == reader.read()

    assert ["out"] == [one.name for one in tmp_path.iterdir()]
    assert "new" == path.read_text()
    with pytest.raises(StateFileError, match="No such file or directory"):
        write_whole(tmp_path / "none" / "out", "new")


READERS: list[Callable[[Path], object]] = [
    *(read_plan, read_offsets, load_fleet, read_texts),
    *(read_runbook, read_parameters, report_of),
]
SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
NAMES = ["cell_type", "metadata", "source", "outputs", "execution_count", "id"]


@pytest.mark.parametrize("read", [*READERS, read_client_properties])
def test_reading_special_files(read: Callable[[Path], object], tmp_path: Path) -> None:
    """A pipe is not waited for and a device not read without end: the error names the file."""
    pipe = tmp_path / "pipe.ipynb"
    os.mkfifo(pipe)
    for path, said in [
        (pipe, "pipe.ipynb.* a named pipe"),
        (Path("/dev/zero"), "/dev/zero.* a device"),
        (tmp_path, "a directory"),
        (tmp_path / "none", "none.* (No such file|file not found)"),
    ]:
        with pytest.raises(UsageError, match=said):
            read(path)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("content", ["[" * 50_000, '{"a":' * 50_000, "\0", "1" * 5000])
def test_content_that_breaks_parsers(
    read: Callable[[Path], object], content: str, tmp_path: Path
) -> None:
    """What is nested too deeply, or is no text, is refused by the name of the file."""
    path = tmp_path / "odd.ipynb"
    path.write_text(content)

    with pytest.raises(UsageError, match="odd"):
        read(path)


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    """No more is read than the limit; a file of exactly that size is read whole."""
    path = tmp_path / "large"
    path.write_bytes(b"x" * 2**20)

    assert 2**20 == len(read_input(path, most_bytes=2**20))
    path.write_bytes(b"x" * (2**20 + 1))
    with pytest.raises(OSError, match="larger than 1 MiB"):
        read_input(path, most_bytes=2**20)
    with pytest.raises(OSError, match="larger than 0 MiB"):
        read_input(path, most_bytes=2**20 - 1)
    assert (
        Path("/proc/self/status").read_text()[:99] in read_input(Path("/proc/self/status")).decode()
    )


def test_no_file_is_written_that_is_too_large_to_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An undo record that can never be read undoes nothing."""
    monkeypatch.setattr(atomic_files, "MOST_BYTES", 3)
    write_whole(tmp_path / "file", "new")

    with pytest.raises(StateFileError, match="larger than"):
        write_whole(tmp_path / "file", "newer")
    assert ["new"] == [one.read_text() for one in tmp_path.iterdir()]


@given(cell=st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, VALUES)), more=VALUES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_malformed_notebooks(tmp_path: Path, cell: dict[str, object], more: object) -> None:
    """Whatever the cells of a notebook hold, it is read, or refused by name."""
    sound = {"cell_type": "code", "metadata": {"tags": ["parameters"]}, "source": "x: int = 1"}
    path = tmp_path / "odd.ipynb"
    for cells in ([cell], [{**sound, **cell}], more):
        document = {"cells": cells, "metadata": more, "nbformat": 4, "nbformat_minor": 4}
        path.write_text(json.dumps(document))
        for read in (read_parameters, report_of):
            with suppress(UsageError):
                read(path)
