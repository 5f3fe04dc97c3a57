"""Copies of the package's notebooks with parameters filled in."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from toolkit.errors import StateFileError
from toolkit.runner.parameters import read_parameters
from toolkit.templates import NOTEBOOKS
from toolkit.templates.filled_copies import write_filled_copy

PAUSE = "40_pause_partitions"
GROUP = "it's <img src=x>/../é"
FILLED = {"groups": (GROUP,), "topics": ("a:0-2", 'b"\\:1'), "cluster": "us"}


def test_what_is_filled_in_is_what_is_read(tmp_path: Path) -> None:
    """The parameters are filled in, whatever their text; types, help and all other cells stay."""
    copy = write_filled_copy(PAUSE, FILLED, tmp_path, about=GROUP)

    assert (tmp_path, "40_pause_partitions-it-s-img-src-x.ipynb") == (copy.parent, copy.name)
    before = read_parameters(NOTEBOOKS / f"{PAUSE}.ipynb")
    filled = FILLED | {name: [*FILLED[name]] for name in ("groups", "topics")}
    assert [(p.name, p.type, filled.get(p.name, p.default), p.help) for p in before] == [
        (p.name, p.type, p.default, p.help) for p in read_parameters(copy)
    ]
    cells, own = (
        json.loads(path.read_text("utf-8"))["cells"]
        for path in (NOTEBOOKS / f"{PAUSE}.ipynb", copy)
    )
    assert 1 == sum(one != other for one, other in zip(cells, own, strict=True))
    (changed,) = (cell for cell in own if cell["metadata"].get("tags"))
    ast.parse("".join(changed["source"]))


def test_no_file_is_replaced(tmp_path: Path) -> None:
    """The same copy is written once; beside one that somebody edited there is another."""
    first = write_filled_copy(PAUSE, FILLED, tmp_path, about="payments")
    assert first == write_filled_copy(PAUSE, FILLED, tmp_path, about="payments")
    first.write_text("edited", "utf-8")

    second = write_filled_copy(PAUSE, FILLED, tmp_path, about="payments")

    assert ("40_pause_partitions-payments.ipynb", "edited") == (first.name, first.read_text())
    assert "40_pause_partitions-payments-2.ipynb" == second.name
    with pytest.raises(StateFileError, match="cannot be written"):
        write_filled_copy(PAUSE, FILLED, tmp_path / "missing", about="payments")
