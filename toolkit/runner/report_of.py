"""A report of a notebook that was executed somewhere: by us, by papermill, or in JupyterLab."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import nbformat

from toolkit.errors import ParameterError, UsageError
from toolkit.report.executed_cells import has_run, is_step
from toolkit.runner.execution import heading_of
from toolkit.runner.notebooks import read_notebook
from toolkit.runner.parameters import read_parameters
from toolkit.runner.result import InvalidResultFile, digest_of, is_time, read_result

RAN, UNFINISHED, FAILED = "ran", "unfinished", "failed"
_NEVER = "run it first: offsetbook run, or Run All Cells in JupyterLab, and save it"


class NotebookReport(NamedTuple):
    """A page, and the status of the notebook's run."""

    html: str
    status: str


def report_of(notebook: Path) -> NotebookReport:
    """
    Return an executed notebook as one offline HTML page, and its status.

    The facts about the run come from the `result.json` in the notebook's folder if there is one,
    else from the notebook itself: then the status is "ran" (every step did), "unfinished" or
    "failed", and the failing step is on top. Raises UsageError where the file is not found, is no
    notebook or was never executed.
    """
    from toolkit.report.html_export import report_html  # noqa: PLC0415 - nbconvert loads slowly

    content = read_notebook(notebook)
    _check_format(notebook, content)
    if not any(has_run(cell) for cell in content["cells"] if is_step(cell)):
        raise UsageError(f"{notebook} was not executed: no cell has run", hint=_NEVER)
    result = _stored_result(notebook) or _result_within(notebook, content)
    return NotebookReport(report_html(notebook, result=result), str(result["status"]))


def _check_format(notebook: Path, content: Mapping[str, Any]) -> None:
    """Raise UsageError for a notebook that others would not read either."""
    try:
        nbformat.validate(nbformat.from_dict(content), relax_add_props=True)  # type: ignore[no-untyped-call]  # has no types
    # Its own errors are of several kinds, and an assertion where the version is no number.
    except (nbformat.ValidationError, AssertionError, ValueError, TypeError) as exc:
        why = str(exc).partition("\n")[0]
        raise UsageError(
            f"{notebook} is not a valid notebook{why and ': '}{why}",
            hint="open it in JupyterLab and save it again",
        ) from exc


def _stored_result(notebook: Path) -> dict[str, Any] | None:
    """Return the result in the folder of the notebook, if it is as the runner left it there."""
    try:
        result = read_result(notebook.parent)
    except InvalidResultFile:
        return None
    # After a rerun of its cells by hand the result is another.
    return result if result.get("notebook_digest") == digest_of(notebook) else None


def _result_within(notebook: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a run in the notebook itself, under the names of `result.json`."""
    status, error = _ending(content)
    metadata = content.get("metadata", {})
    papermill = metadata.get("papermill", {}) if isinstance(metadata, dict) else {}
    papermill = papermill if isinstance(papermill, dict) else {}
    return {
        "notebook": notebook.stem,
        "status": status,
        "error": error,
        "parameters": _parameters(notebook, papermill),
        "version": version("offsetbook"),
        **_times(papermill),
    }


def _times(papermill: Mapping[str, Any]) -> dict[str, str]:
    times = {"started": papermill.get("start_time"), "finished": papermill.get("end_time")}
    known = {name: at for name, at in times.items() if isinstance(at, str) and is_time(at)}
    return known if known.keys() == times.keys() else {}


def _ending(content: Mapping[str, Any]) -> tuple[str, dict[str, Any] | None]:
    heading, not_run = "", None
    for cell in content["cells"]:
        if cell["cell_type"] == "markdown":
            heading = heading_of(cell) or heading
        for output in cell.get("outputs", ()):
            if output["output_type"] == "error":
                name, text = str(output.get("ename", "")), str(output.get("evalue", ""))
                reason = f"{name}: {' '.join(text.split())}".rstrip(": ")
                return FAILED, {"reason": reason, "step": heading}
        if not_run is None and is_step(cell) and not has_run(cell):
            not_run = {
                "reason": "this cell was not run, and maybe others after it",
                "step": heading,
            }
    return (UNFINISHED, not_run) if not_run else (RAN, None)


def _parameters(notebook: Path, papermill: Mapping[str, Any]) -> dict[str, Any]:
    try:
        declared = {p.name: p.default for p in read_parameters(notebook)}
    except (ParameterError, UsageError):
        declared = {}  # another notebook may declare them in its own way
    given = papermill.get("parameters")
    return declared | (given if isinstance(given, dict) else {})
