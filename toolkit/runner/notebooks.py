"""Find a notebook by what an operator types."""

from __future__ import annotations

from pathlib import Path

from toolkit.errors import UsageError

# Beside the working directory, beside the package where it runs from its own repository, or, as
# for a kernel of JupyterLab, in the working directory.
_FOLDERS = (Path("notebooks"), Path(__file__).resolve().parents[2] / "notebooks", Path())


def find_notebook(name: str, *, folders: tuple[Path, ...] = _FOLDERS) -> Path:
    """Return the notebook at a path, or the only one whose name begins like that."""
    path = Path(name)
    if path.suffix == ".ipynb" or path.is_file():
        if path.is_file():
            return path
        raise UsageError(f"no notebook {name}", hint=_hint(_known(folders)))
    known = _known(folders)
    exact = [notebook for notebook in known if notebook.stem == name]
    found = exact or [notebook for notebook in known if notebook.stem.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(notebook.stem for notebook in found)
        raise UsageError(f"{name!r} is ambiguous: {names}", hint=("use a longer prefix"))
    raise UsageError(f"no notebook named {name!r}", hint=_hint(known))


def _known(folders: tuple[Path, ...]) -> list[Path]:
    """The notebooks of the first folder that has any."""
    for folder in folders:
        if notebooks := sorted(folder.glob("*.ipynb")):
            return notebooks
    return []


def _hint(known: list[Path]) -> str:
    names = ", ".join(notebook.stem for notebook in known)
    return f"use one of: {names}" if names else "pass a path; there is no directory notebooks here"
