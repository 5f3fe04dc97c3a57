"""Notebooks are pages: parameters on top, a sentence above each short cell, nothing left behind."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import toolkit
from toolkit.runner.parameters import read_parameters

ROOT = Path(__file__).parent.parent.parent
NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))
MAX_CELL_LINES = 10
MAX_PARAMETERS = 20
PUBLIC = set(toolkit.__all__)
PUBLIC_PACKAGES = {"toolkit", "widgets", "typing"}
TOURING = "00_tour"  # it makes many changes, one cell for each
MAX_CELLS, MAX_LINES = 10, 40


def cells(path: Path) -> list[dict[str, Any]]:
    """Return a notebook's cells."""
    found: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["cells"]
    return found


def source(cell: dict[str, Any]) -> str:
    """Return a cell's text."""
    return "".join(cell["source"])


def offenders(problems: Callable[[Path], Iterable[str]]) -> list[str]:
    """Return what is wrong with each notebook, with its name."""
    return [f"{path.stem}: {problem}" for path in NOTEBOOKS for problem in problems(path)]


def test_there_are_notebooks() -> None:
    """The tests below look at something."""
    assert {"10_fleet_lag", "20_find_unsubscribed_offsets"} <= {path.stem for path in NOTEBOOKS}


def test_nothing_is_left_of_a_run() -> None:
    """No output, no execution count, no trace of papermill, and the kernel that everybody has."""

    def problems(path: Path) -> Iterator[str]:
        metadata = json.loads(path.read_text("utf-8"))["metadata"]
        if set(metadata) != {"kernelspec", "language_info"}:
            yield f"metadata {sorted(metadata)}"
        if metadata["kernelspec"]["name"] != "python3":
            yield f"kernel {metadata['kernelspec']['name']}"
        for cell in cells(path):
            if cell.get("outputs"):
                yield f"output of {source(cell)}"
            if cell.get("execution_count") is not None:
                yield f"execution count of {source(cell)}"

    assert [] == offenders(problems)


def test_code_is_collapsed_except_the_parameters() -> None:
    """Who opens a notebook sees text, parameters and results; JupyterLab shows code at a click."""

    def problems(path: Path) -> Iterator[str]:
        for cell in cells(path):
            is_hidden = cell["cell_type"] == "code" and "tags" not in cell["metadata"]
            expected = {"jupyter": {"source_hidden": True}} if is_hidden else {}
            if cell["metadata"] not in (expected, {"tags": ["parameters"]}):
                yield f"metadata of {source(cell)}"

    assert [] == offenders(problems)


def test_purpose_risk_and_effect_come_first() -> None:
    """A notebook starts by saying what it is for, what may go wrong and what it may change."""

    def problems(path: Path) -> Iterator[str]:
        first = source(cells(path)[0])
        if not first.startswith("# "):
            yield "no title"
        for word in ("**Purpose.**", "**Risk.**", "**Changes.**"):
            if word not in first:
                yield f"no {word}"

    assert [] == offenders(problems)


def test_parameters_are_typed_and_explained() -> None:
    """There is one parameters cell, and every line has a type, a literal and a word of help."""

    def problems(path: Path) -> Iterator[str]:
        tagged = [cell for cell in cells(path) if "parameters" in cell["metadata"].get("tags", ())]
        if len(tagged) != 1:
            yield f"{len(tagged)} parameters cells"
        yield from (f"no help: {one.name}" for one in read_parameters(path) if not one.help)

    assert [] == offenders(problems)


def test_every_cell_is_a_short_step_under_a_sentence() -> None:
    """Each code cell stands under prose, has about ten lines and defines nothing."""

    def problems(path: Path) -> Iterator[str]:
        previous: dict[str, Any] = {}
        for cell in cells(path):
            if cell["cell_type"] == "code":
                if previous.get("cell_type") != "markdown":
                    yield f"no sentence above: {source(cell)}"
                # Parameters are a list to read, not a step.
                most = MAX_PARAMETERS if cell["metadata"].get("tags") else MAX_CELL_LINES
                if len(source(cell).splitlines()) > most:
                    yield f"too long: {source(cell)}"
                defined = (ast.FunctionDef, ast.ClassDef, ast.Lambda)
                tree = ast.parse(source(cell))
                if any(isinstance(node, defined) for node in ast.walk(tree)):
                    yield f"defines something: {source(cell)}"
            previous = cell

    assert [] == offenders(problems)


def test_only_public_names_are_used() -> None:
    """A notebook uses the public names of toolkit and nothing behind them."""

    def problems(path: Path) -> Iterator[str]:
        code = [source(cell) for cell in cells(path) if cell["cell_type"] == "code"]
        for node in (node for text in code for node in ast.walk(ast.parse(text))):
            modules: set[str | None] = set()
            if isinstance(node, ast.ImportFrom):
                modules = {node.module}
            if isinstance(node, ast.Import):
                modules = {alias.name for alias in node.names}
            if not modules <= PUBLIC_PACKAGES:
                yield f"imports {modules}"
            is_attribute = isinstance(node, ast.Attribute)
            if is_attribute and ast.unparse(node.value) == "ob" and node.attr not in PUBLIC:
                yield f"uses toolkit.{node.attr}"

    assert [] == offenders(problems)


def test_a_notebook_is_short() -> None:
    """A notebook has at most ten code cells and forty lines of code, parameters included."""

    def problems(path: Path) -> Iterator[str]:
        code = [source(cell) for cell in cells(path) if cell["cell_type"] == "code"]
        lines = sum(bool(line.strip()) for text in code for line in text.splitlines())
        if path.stem != TOURING and (len(code) > MAX_CELLS or lines > MAX_LINES):
            yield f"{len(code)} code cells, {lines} lines"

    assert [] == offenders(problems)
