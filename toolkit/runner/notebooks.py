"""Find a notebook by what an operator types."""

from __future__ import annotations

from pathlib import Path

from toolkit.errors import UsageError
from toolkit.templates import NOTEBOOKS

# First those of the package: a copy that somebody edits does not stand in for the template.
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


def _hint(folders: tuple[Path, ...]) -> str:
    known = {
        notebook.stem: None for folder in folders for notebook in sorted(folder.glob("*.ipynb"))
    }
    return f"use one of: {', '.join(known)}" if known else "pass a path; no notebooks are here"
