"""The runbooks that there are: found by name, and listed on one page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from toolkit.errors import RunbookError, UsageError
from toolkit.runbooks.runbook_page import Runbook, read_runbook
from toolkit.storage.formats.yaml_nodes import meant

README = "README.md"
# Beside the working directory, or beside the package where it runs from its own repository.
_FOLDERS = (Path("runbooks"), Path(__file__).resolve().parents[2] / "runbooks")
_HEAD = """\
# Runbooks

Each page here is a runbook: for people when to use it and how to back out, for the runner which \
notebook to run, on which clusters, within which limits. This list is made from the pages by \
`offsetbook runbooks --write`; a test compares the two. `schedules/` has examples for schedulers.

    offsetbook run NAME --dry-run        # show everything and change nothing
    offsetbook run NAME                  # as its page says

| runbook | what it does | changes | clusters | notebook |
|---|---|---|---|---|
"""


def find_runbook(name: str, *, folders: Sequence[Path] = _FOLDERS) -> Path | None:
    """
    Return the page at a path that ends in .md, or the one of a name; None where there is none.

    Raises RunbookError for a path at which there is no page.
    """
    path = Path(name)
    if path.suffix == ".md":
        if path.is_file():
            return path
        known = [page.stem for page in pages_in(folder_of_runbooks(folders))]
        raise RunbookError(
            f"there is no runbook {name}{meant(path.stem, known)}",
            hint="'offsetbook runbooks' lists those that there are",
        )
    return next((page for page in pages_in(folder_of_runbooks(folders)) if page.stem == name), None)


def folder_of_runbooks(folders: Sequence[Path] = _FOLDERS) -> Path:
    """Return the folder in which runbooks are looked for."""
    return next((folder for folder in folders if folder.is_dir()), folders[0])


def pages_in(folder: Path | None = None) -> list[Path]:
    """Return the pages of a folder, or of where runbooks are looked for, in order."""
    pages = (folder or folder_of_runbooks()).glob("*.md")
    return sorted(path for path in pages if path.name != README)


def read_all(folder: Path) -> tuple[list[Runbook], list[UsageError]]:
    """Return the runbooks of a folder, and what is wrong with those that cannot be used."""
    good, bad = [], []
    for path in pages_in(folder):
        try:
            good.append(read_runbook(path))
        except UsageError as exc:
            bad.append(exc)
    return good, bad


def readme_of(pages: Sequence[Runbook]) -> str:
    """Return the page that lists runbooks."""
    return _HEAD + "".join(f"| {' | '.join(_cells(page))} |\n" for page in pages)


def clusters_in_words(page: Runbook) -> str:
    """Return on which clusters a runbook is run."""
    if page.must_name_clusters:
        return "to be named"
    return ", ".join(page.clusters or ()) or "all"


def changes_in_words(page: Runbook) -> str:
    """Return how much a runbook may change."""
    return ", ".join(page.limits) if page.may_change else "nothing"


def _cells(page: Runbook) -> list[str]:
    link = f"[{page.name}]({page.path.name})"
    what = [page.title, changes_in_words(page), clusters_in_words(page), page.notebook.stem]
    return [link, *(text.replace("|", "\\|") for text in what)]
