"""
Copy the notebooks and runbooks to where people edit them; what was edited is never replaced.

A copy gets what JupyterLab writes into a notebook as soon as its kernel has started: one without it
is marked as changed right after it was opened. That names the version of Python, and two notebooks
that differ in nothing else are the same.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import json
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import Any

from toolkit.errors import UsageError
from toolkit.storage.formats.atomic_files import write_whole
from toolkit.templates import NOTEBOOKS, RUNBOOKS, STARTERS

KERNEL = "python3"

# Digests of the copies, by path: a file with another one was edited since.
COPIED = Path(".offsetbook") / "copied.json"
LONGEST_PART = 24
SEEN = 14  # letters of a name in JupyterLab's list of files, as wide as it is at first


def kernel_metadata() -> dict[str, Any]:
    major = sys.version_info.major
    return {
        "kernelspec": {
            "display_name": f"Python {major} (ipykernel)",
            "language": "python",
            "name": KERNEL,
        },
        "language_info": {
            "codemirror_mode": {"name": "ipython", "version": major},
            "file_extension": ".py",
            "mimetype": "text/x-python",
            "name": "python",
            "nbconvert_exporter": "python",
            "pygments_lexer": f"ipython{major}",
            "version": platform.python_version(),
        },
    }


def with_kernel(notebook: str) -> str:
    """Return a notebook that stays as it is when JupyterLab opens it."""
    content = json.loads(notebook)
    return notebook_text(content | {"metadata": content["metadata"] | kernel_metadata()})


def as_shipped(notebook: str, shipped: str) -> str:
    """Return a copy with the metadata of the notebook it was made from; of another kernel as is."""
    try:
        content = json.loads(notebook)
        if content["metadata"]["kernelspec"]["name"] != KERNEL:
            return notebook
        return notebook_text(content | {"metadata": json.loads(shipped)["metadata"]})
    except (ValueError, KeyError, TypeError):
        return notebook


def notebook_text(content: dict[str, Any]) -> str:
    """Return a notebook as JupyterLab saves it."""
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


class CopyStatus(StrEnum):
    """What became of one file."""

    CREATED = "created"
    UNCHANGED = "unchanged"
    UPDATED = "updated"
    OUTDATED = "older version kept"  # not edited; an update replaces it
    EDITED = "edited, kept"


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """One file of the directory; `difference` is a unified diff to the one of this version."""

    path: Path  # relative to the directory
    status: CopyStatus
    difference: str = ""


def copy_templates(directory: Path, *, update: bool = False) -> list[CopiedFile]:
    """
    Create missing files in a directory, and return the result for each file.

    `update` replaces copies of another version that were not edited. Raises UsageError if the
    directory is the one that is copied from, or cannot be written to.
    """
    target = directory.resolve()
    if target / "notebooks" == NOTEBOOKS:
        raise UsageError(
            f"{directory} has the notebooks that are copied from", hint="name another directory"
        )
    try:
        copied = _read_copied(target)
        (target / COPIED).parent.mkdir(parents=True, exist_ok=True)
        found = [
            _copy(source, path, target, copied, update=update) for path, source in _templates()
        ]
        write_whole(target / COPIED, json.dumps(copied, indent=2, sort_keys=True) + "\n")
    except OSError as exc:
        raise UsageError(f"cannot write {exc.filename}: {exc.strerror}") from exc
    return found


def _templates() -> Iterator[tuple[Path, Path]]:
    yield from ((Path(name), source) for name, source in STARTERS.items())
    for folder in (NOTEBOOKS, RUNBOOKS):
        for source in sorted(folder.rglob("*")):
            if source.is_file() and not {".ipynb_checkpoints", "__pycache__"} & {*source.parts}:
                yield Path(folder.name, source.relative_to(folder)), source


def _copy(
    source: Path, path: Path, directory: Path, copied: dict[str, str], *, update: bool
) -> CopiedFile:
    target, text = directory / path, source.read_text("utf-8")
    is_notebook = path.suffix == ".ipynb"
    if not target.exists():
        status, difference = CopyStatus.CREATED, ""
    else:
        old = target.read_text("utf-8", errors="replace")
        old = as_shipped(old, text) if is_notebook else old
        if old == text:
            copied[str(path)] = _digest(text)
            return CopiedFile(path, CopyStatus.UNCHANGED)
        difference = _difference(path, old, text)
        if copied.get(str(path)) != _digest(old):
            return CopiedFile(path, CopyStatus.EDITED, difference)
        if not update:
            return CopiedFile(path, CopyStatus.OUTDATED, difference)
        status = CopyStatus.UPDATED
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, with_kernel(text) if is_notebook else text)
    copied[str(path)] = _digest(text)
    return CopiedFile(path, status, difference)


def _read_copied(directory: Path) -> dict[str, str]:
    try:
        found = json.loads((directory / COPIED).read_text("utf-8"))
    except (FileNotFoundError, ValueError):  # then everything that differs counts as edited
        return {}
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _difference(path: Path, old: str, new: str) -> str:
    """Return a unified diff; of a notebook the cells are compared, not its file format."""
    lines_of = _cells if path.suffix == ".ipynb" else str.splitlines
    names = (f"{path} (yours)", f"{path} (this version)")
    return "\n".join(difflib.unified_diff(lines_of(old), lines_of(new), *names, lineterm=""))


def _cells(text: str) -> list[str]:
    try:
        sources = ["".join(cell["source"]) for cell in json.loads(text)["cells"]]
    except (ValueError, KeyError, TypeError):
        return text.splitlines()
    return [line for source in sources for line in [*source.splitlines(), ""]]


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
        looks_like_another = any(
            path.name[:SEEN] == other.name[:SEEN] for other in folder.glob("*.ipynb")
        )
        if not path.exists() and not looks_like_another:
            write_whole(path, text)
        if path.exists() and path.read_text("utf-8") == text:
            return path
    raise AssertionError  # the numbers do not end


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
