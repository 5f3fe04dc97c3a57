"""Copies of a notebook with parameters filled in, in the folder of the operator's notebooks."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from itertools import count
from pathlib import Path

from toolkit.storage.formats.atomic_files import write_whole
from toolkit.templates import NOTEBOOKS
from toolkit.templates.kernel_metadata import notebook_text, with_kernel

LONGEST_PART = 24
SEEN = 14  # letters of a name in JupyterLab's list of files, as wide as it is at first


def write_filled_copy(notebook: str, values: Mapping[str, object], folder: Path) -> Path:
    """
    Write a copy of a notebook with parameters filled in, and return its path.

    Its name begins with the notebook's number, the cluster and what is chosen there. No other file
    is replaced: if one differs, or looks the same in JupyterLab's list of files, the copy gets a
    number of its own. Raises StateFileError.
    """
    text = _filled((NOTEBOOKS / f"{notebook}.ipynb").read_text("utf-8"), values)
    for number in count(1):
        path = folder / f"{name_of_copy(notebook, values, number)}.ipynb"
        if not path.exists() and not _looks_like_another(path):
            write_whole(path, text)
        if path.exists() and path.read_text("utf-8") == text:
            return path
    raise AssertionError  # the numbers do not end


def _looks_like_another(path: Path) -> bool:
    return any(path.name[:SEEN] == other.name[:SEEN] for other in path.parent.glob("*.ipynb"))


def name_of_copy(notebook: str, values: Mapping[str, object], copy: int = 1) -> str:
    """
    Return `61-eu-payments-delete_groups`: of ASCII characters that every file system has.

    The second `copy` begins with `61-2`.
    """
    number, _, task = notebook.partition("_")
    what = [str(values.get(name, "")) for name in ("run", "action", "mode")]
    flags = [name for name, value in values.items() if value is True]
    chosen = [_chosen(values, "group"), _chosen(values, "topic"), *what, *flags]
    parts = [number, str(copy) if copy > 1 else "", _chosen(values, "cluster"), *chosen, task]
    return "-".join(filter(None, map(_in_file_name, parts)))


def _chosen(values: Mapping[str, object], what: str) -> str:
    """Return the group or topic that a copy is about, or how many there are."""
    chosen = values.get(what, values.get(f"{what}s", ()))
    names = [str(name) for name in chosen] if isinstance(chosen, list | tuple) else [str(chosen)]
    return names[0] if len(names) == 1 else f"{len(names)}-{what}s" if names else ""


def _in_file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._]+", "-", text)[:LONGEST_PART].strip("-.")


def _filled(notebook: str, values: Mapping[str, object]) -> str:
    content = json.loads(notebook)
    for cell in content["cells"]:
        if "parameters" in cell["metadata"].get("tags", ()):
            source = "".join(cell["source"])
            cell["source"] = _with_values(source, values).splitlines(keepends=True)
    return with_kernel(notebook_text(content))


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
