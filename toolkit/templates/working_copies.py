"""Copy the notebooks and runbooks to where people edit them; what was edited is never replaced."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from toolkit.errors import UsageError
from toolkit.storage.formats.atomic_files import write_whole
from toolkit.templates import NOTEBOOKS, RUNBOOKS, STARTERS
from toolkit.templates.kernel_metadata import as_shipped, with_kernel

# What was copied, by path: a file with another digest was edited since.
COPIED = Path(".offsetbook") / "copied.json"


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
    Create what is missing in a directory, and return what became of each file.

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
    """Yield each file's path in a working directory, and where it is copied from."""
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
