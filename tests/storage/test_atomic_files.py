"""Files are replaced in one piece, and only regular ones."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from toolkit.errors import StateFileError
from toolkit.storage.formats.atomic_files import write_whole


def link(path: Path) -> None:
    """Make a symbolic link to a file."""
    target = path.with_name("target")
    target.write_text("mine")
    path.symlink_to(target)


def dangling_link(path: Path) -> None:
    """Make a symbolic link to nothing."""
    path.symlink_to(path.with_name("nothing"))


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
        (dangling_link, "a symbolic link"),
        (os.mkfifo, "a named pipe"),
        (Path.mkdir, "a directory"),
        (listening_socket, "a socket"),
    ],
)
def test_what_is_no_regular_file_stays(
    make: Callable[[Path], object], kind: str, tmp_path: Path
) -> None:
    """It is named, and neither replaced nor written to."""
    path = tmp_path / "out"
    make(path)
    before = path.lstat()

    with pytest.raises(StateFileError, match=f"out is {kind}; it was not replaced"):
        write_whole(path, "new")

    assert (before.st_ino, before.st_mode) == (path.lstat().st_ino, path.lstat().st_mode)
    assert {"out", "target"} >= {one.name for one in tmp_path.iterdir()}


def test_a_device_stays() -> None:
    """Also where we are root: who replaces /dev/null has every program write to that file."""
    with pytest.raises(StateFileError, match="is a device; it was not replaced"):
        write_whole(Path("/dev/null"), "new")
    assert Path("/dev/null").is_char_device()


def test_a_regular_file_is_replaced(tmp_path: Path) -> None:
    """Whole, and nothing is left beside it."""
    path = tmp_path / "out"
    path.write_text("old")
    write_whole(path, "new")

    assert ["out"] == [one.name for one in tmp_path.iterdir()]
    assert "new" == path.read_text()
