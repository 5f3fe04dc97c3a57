"""Files that somebody names may be anything: each is read, or refused by name and reason."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolkit.errors import UsageError
from toolkit.model.client_properties import read_client_properties
from toolkit.model.input_files import read_input
from toolkit.runbooks.runbook_page import read_runbook
from toolkit.runner.parameters import read_parameters, read_texts
from toolkit.runner.report_of import report_of
from toolkit.storage.fleet_file import load_fleet
from toolkit.storage.offsets_files import read_offsets
from toolkit.storage.plan_files import read_plan

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
def test_what_is_no_regular_file(read: Callable[[Path], object], tmp_path: Path) -> None:
    """A pipe is not waited for and a device not read without end: the error names the file."""
    pipe = tmp_path / "pipe.ipynb"
    os.mkfifo(pipe)
    for path, said in [
        (pipe, "pipe.ipynb.* a named pipe"),
        (Path("/dev/zero"), "/dev/zero.* a device"),
        (tmp_path, "a directory"),
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


@pytest.mark.parametrize(
    "source", ["x: int = " + "(" * 500, "x: int = " + "-" * 99_999 + "1", "x\0", "x: int = {[]: 1}"]
)
def test_parameters_that_python_cannot_parse(source: str, tmp_path: Path) -> None:
    """A parameters cell that is no Python is named, with the line."""
    cell = {"cell_type": "code", "metadata": {"tags": ["parameters"]}, "source": source}
    path = tmp_path / "odd.ipynb"
    path.write_text(json.dumps({"cells": [cell]}))

    with pytest.raises(UsageError, match="line 1 of the parameters cell"):
        read_parameters(path)
