"""Notebooks are pages: parameters on top, a sentence above each short cell, nothing left behind."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

import toolkit
from toolkit.runbook import read_parameters

ROOT = Path(__file__).parent.parent.parent
NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))
MAX_CELL_LINES = 10
MAX_PARAMETERS = 20
PUBLIC_PACKAGES = {"toolkit", "widgets", "datetime", "pathlib", "typing"}

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(path: Path) -> list[dict[str, Any]]:
    """Return a notebook's cells."""
    found: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["cells"]
    return found


def source(cell: dict[str, Any]) -> str:
    """Return a cell's text."""
    return "".join(cell["source"])


def test_there_are_notebooks() -> None:
    """The tests below look at something."""
    assert {"10_fleet_lag", "20_find_unsubscribed_offsets"} <= {path.stem for path in NOTEBOOKS}


@each_notebook
def test_nothing_is_left_of_a_run(path: Path) -> None:
    """No output, no execution count, no trace of papermill, and the kernel that everybody has."""
    metadata = json.loads(path.read_text("utf-8"))["metadata"]

    assert {"kernelspec", "language_info"} == set(metadata)
    assert "python3" == metadata["kernelspec"]["name"]
    for cell in cells(path):
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
        assert set(cell["metadata"]) <= {"tags"}


@each_notebook
def test_purpose_risk_and_effect_come_first(path: Path) -> None:
    """A notebook starts by saying what it is for, what may go wrong and what it may change."""
    first = source(cells(path)[0])

    assert first.startswith("# ")
    for word in ("**Purpose.**", "**Risk.**", "**May change.**"):
        assert word in first


@each_notebook
def test_parameters_are_typed_and_explained(path: Path) -> None:
    """There is one parameters cell, and every line has a type, a literal and a word of help."""
    tagged = [cell for cell in cells(path) if "parameters" in cell["metadata"].get("tags", ())]

    assert 1 == len(tagged)
    assert all(parameter.help for parameter in read_parameters(path))


@each_notebook
def test_every_cell_is_a_short_step_under_a_sentence(path: Path) -> None:
    """Each code cell stands under prose, has about ten lines and defines nothing."""
    previous: dict[str, Any] = {}
    for cell in cells(path):
        if cell["cell_type"] == "code":
            assert "markdown" == previous["cell_type"], source(cell)
            # Parameters are a list to read, not a step.
            most = MAX_PARAMETERS if cell["metadata"].get("tags") else MAX_CELL_LINES
            assert len(source(cell).splitlines()) <= most, source(cell)
            defined = (ast.FunctionDef, ast.ClassDef, ast.Lambda)
            tree = ast.parse(source(cell))
            assert not [node for node in ast.walk(tree) if isinstance(node, defined)]
        previous = cell


@each_notebook
def test_only_public_names_are_used(path: Path) -> None:
    """A notebook uses the public names of toolkit and nothing behind them."""
    for cell in cells(path):
        if cell["cell_type"] != "code":
            continue
        for node in ast.walk(ast.parse(source(cell))):
            if isinstance(node, ast.ImportFrom | ast.Import):
                names = [alias.name for alias in node.names]
                modules = [node.module] if isinstance(node, ast.ImportFrom) else names
                assert set(modules) <= PUBLIC_PACKAGES
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "toolkit":
                assert node.attr in toolkit.__all__
