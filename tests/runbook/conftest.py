"""Tiny notebooks, each made for the one behaviour that it provokes."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

MakeNotebook = Callable[..., Path]


@pytest.fixture
def make_notebook(tmp_path: Path) -> MakeNotebook:
    """Return a function that writes a notebook from code cells; `# Heading` cells are Markdown."""

    def make(*cells: str, parameters: str = "", name: str = "20_example") -> Path:
        notebook = new_notebook(
            metadata={"kernelspec": {"name": "python3", "language": "python", "display_name": "P"}}
        )
        if parameters:
            cell = new_code_cell(parameters, metadata={"tags": ["parameters"]})
            notebook.cells.append(cell)
        for source in cells:
            make_cell = new_markdown_cell if source.startswith("#") else new_code_cell
            notebook.cells.append(make_cell(source))
        path = tmp_path / f"{name}.ipynb"
        nbformat.write(notebook, path)
        return path

    return make


@pytest.fixture
def in_a_thread() -> Callable[[Callable[[], Any]], Any]:
    """Return a function that calls another one outside of the main thread."""

    def call(work: Callable[[], Any]) -> Any:
        with ThreadPoolExecutor(1) as one:
            return one.submit(work).result()

    return call
