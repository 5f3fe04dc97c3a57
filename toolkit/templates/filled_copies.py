"""Copies of a notebook with parameters filled in, beside the notebook that somebody works in."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path

from toolkit.storage.formats.atomic_files import write_whole
from toolkit.templates import NOTEBOOKS

LONGEST_NAME = 60


def write_filled_copy(
    notebook: str, values: Mapping[str, object], folder: Path, *, about: str = ""
) -> Path:
    """
    Write a copy of a notebook with parameters filled in, and return its path.

    It is named after the notebook and what it is `about`, such as a group. No other file is
    replaced: beside one that differs, the copy gets a number. Raises StateFileError.
    """
    text = _filled((NOTEBOOKS / f"{notebook}.ipynb").read_text("utf-8"), values)
    stem = f"{notebook}-{re.sub(r'[^A-Za-z0-9._]+', '-', about)}"[:LONGEST_NAME].strip("-.")
    for path in (folder / f"{stem}{number}.ipynb" for number in _numbers()):
        if not path.exists():
            write_whole(path, text)
        if path.read_text("utf-8") == text:
            return path
    raise AssertionError  # the numbers do not end


def _numbers() -> Iterator[str]:
    yield ""
    yield from (f"-{number}" for number in count(2))


def _filled(notebook: str, values: Mapping[str, object]) -> str:
    content = json.loads(notebook)
    for cell in content["cells"]:
        if "parameters" in cell["metadata"].get("tags", ()):
            source = "".join(cell["source"])
            cell["source"] = _with_values(source, values).splitlines(keepends=True)
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _with_values(source: str, values: Mapping[str, object]) -> str:
    """Return the parameters cell with other values; types and help stay."""
    lines = source.splitlines()
    for node in ast.parse(source).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            name = node.target.id
            if name in values:
                line, value = lines[node.lineno - 1].encode(), values[name]
                shown = repr([*value] if isinstance(value, tuple) else value).encode()
                filled = line[: node.value.col_offset] + shown
                lines[node.lineno - 1] = (filled + line[node.value.end_col_offset :]).decode()
    return "\n".join(lines)
