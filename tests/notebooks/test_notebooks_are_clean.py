"""Notebooks are pages: parameters on top, a sentence above each short cell, nothing left behind."""

import ast
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

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
    found: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["cells"]
    return found


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def code(path: Path) -> list[str]:
    return [source(cell) for cell in cells(path) if cell["cell_type"] == "code"]


def test_there_are_notebooks() -> None:
    """The tests below look at something."""
    assert {"10_fleet_lag", "20_find_unsubscribed_offsets"} <= {path.stem for path in NOTEBOOKS}


def left_of_a_run(path: Path) -> Iterator[str]:
    """No output, no execution count, no trace of papermill, and the kernel that everybody has."""
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


def code_that_is_not_collapsed(path: Path) -> Iterator[str]:
    """Who opens a notebook sees text, parameters and results; JupyterLab shows code at a click."""
    for cell in cells(path):
        is_hidden = cell["cell_type"] == "code" and "tags" not in cell["metadata"]
        expected = {"jupyter": {"source_hidden": True}} if is_hidden else {}
        if cell["metadata"] not in (expected, {"tags": ["parameters"]}):
            yield f"metadata of {source(cell)}"


def beginning_without_purpose_or_risk(path: Path) -> Iterator[str]:
    """A notebook starts by saying what it is for, what may go wrong and what it may change."""
    first = source(cells(path)[0])
    if not first.startswith("# "):
        yield "no title"
    for word in ("**Purpose.**", "**Risk.**", "**Changes.**"):
        if word not in first:
            yield f"no {word}"


def parameters_without_help(path: Path) -> Iterator[str]:
    """There is one parameters cell, and every line has a type, a literal and a word of help."""
    tagged = [cell for cell in cells(path) if "parameters" in cell["metadata"].get("tags", ())]
    if len(tagged) != 1:
        yield f"{len(tagged)} parameters cells"
    yield from (f"no help: {one.name}" for one in read_parameters(path) if not one.help)


def long_or_unexplained_cells(path: Path) -> Iterator[str]:
    """Each code cell stands under prose, has about ten lines and defines nothing."""
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


def names_that_are_not_public(path: Path) -> Iterator[str]:
    """A notebook uses the public names of toolkit and nothing behind them."""
    for node in (node for text in code(path) for node in ast.walk(ast.parse(text))):
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


def too_much_code(path: Path) -> Iterator[str]:
    """A notebook has at most ten code cells and forty lines of code, parameters included."""
    lines = sum(bool(line.strip()) for text in code(path) for line in text.splitlines())
    if path.stem != TOURING and (len(code(path)) > MAX_CELLS or lines > MAX_LINES):
        yield f"{len(code(path))} code cells, {lines} lines"


@pytest.mark.parametrize(
    "problems",
    [
        left_of_a_run,
        code_that_is_not_collapsed,
        beginning_without_purpose_or_risk,
        parameters_without_help,
        long_or_unexplained_cells,
        names_that_are_not_public,
        too_much_code,
    ],
)
def test_every_notebook_is_clean(problems: Callable[[Path], Iterator[str]]) -> None:
    """Each of the rules above holds in every notebook."""
    assert [] == [f"{path.stem}: {problem}" for path in NOTEBOOKS for problem in problems(path)]
