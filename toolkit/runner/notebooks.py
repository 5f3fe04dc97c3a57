"""Find a notebook by the name that an operator types, and read it without trusting it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from toolkit.errors import UsageError
from toolkit.model.input_files import read_input
from toolkit.templates import NOTEBOOKS

# First those of the package: an edited copy does not replace the template.
_FOLDERS = (NOTEBOOKS, Path("notebooks"), Path())


def find_notebook(name: str, *, folders: tuple[Path, ...] = _FOLDERS) -> Path:
    """Return the notebook at a path, or the only one of the first folder that begins like that."""
    path = Path(name)
    if path.suffix == ".ipynb" or path.is_file():
        if path.is_file():
            return path
        raise UsageError(f"no notebook {name}", hint=_hint(folders))
    for folder in folders:
        known = sorted(folder.glob("*.ipynb"))
        exact = [notebook for notebook in known if notebook.stem == name]
        found = exact or [notebook for notebook in known if notebook.stem.startswith(name)]
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(notebook.stem for notebook in found)
            raise UsageError(f"{name!r} is ambiguous: {names}", hint="use a longer prefix")
    raise UsageError(f"no notebook named {name!r}", hint=_hint(folders))


def read_notebook(notebook: Path) -> dict[str, Any]:
    """Return the content of a notebook with its cells; raises UsageError for anything else."""
    try:
        content: Any = json.loads(read_input(notebook).decode())
    except OSError as exc:
        why = "file not found" if isinstance(exc, FileNotFoundError) else exc.strerror
        raise UsageError(
            f"{notebook} cannot be read: {why}", hint="pass the path of a notebook"
        ) from exc
    except (ValueError, RecursionError) as exc:
        raise UsageError(
            f"{notebook} is not a notebook: invalid JSON",
            hint="open it in JupyterLab and save it again",
        ) from exc
    # Before version 4 the cells were elsewhere; offsetbook has no such notebook.
    is_one = isinstance(content, dict) and isinstance(content.get("cells"), list)
    if not is_one or not all(map(_is_cell, content["cells"])):
        raise UsageError(
            f"{notebook} is not a notebook: it has no cells as in format 4",
            hint="open it in JupyterLab and save it again",
        )
    return dict(content)


def _hint(folders: tuple[Path, ...]) -> str:
    known = {
        notebook.stem: None for folder in folders for notebook in sorted(folder.glob("*.ipynb"))
    }
    return f"use one of: {', '.join(known)}" if known else "pass a path; no notebooks are here"


def _is_cell(cell: object) -> bool:
    if not isinstance(cell, dict) or not isinstance(cell.get("metadata"), dict):
        return False
    if not isinstance(cell["metadata"].get("tags", []), list):
        return False
    outputs = cell.get("outputs", [])
    return (
        isinstance(cell.get("cell_type"), str)
        and _is_text(cell.get("source"))
        and isinstance(outputs, list)
        and all(isinstance(o, dict) and isinstance(o.get("output_type"), str) for o in outputs)
    )


def _is_text(source: object) -> bool:
    return isinstance(source, str) or (
        isinstance(source, list) and all(isinstance(line, str) for line in source)
    )
