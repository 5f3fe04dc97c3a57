"""What the first cell of a notebook checks before anything is read: packages and parameters."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any

from toolkit.errors import ParameterError
from toolkit.journeys.installation import require_installation
from toolkit.report.display import running_cell
from toolkit.report.notices import NoticeTone, show_notice
from toolkit.report.plan_inputs import NotebookParameters, end_plans
from toolkit.report.safe_names import sentence
from toolkit.runner.notebooks import find_notebook
from toolkit.runner.parameters import (
    ONE_NAME,
    Parameter,
    check_parameters,
    read_parameters,
    rename_notices,
    renamed_in_kernel,
)


def parameters(notebook: str, kernel: MutableMapping[str, Any]) -> NotebookParameters:
    """
    Check what is installed, and the parameters: `parameters("50_reset_offsets", vars())`.

    What was planned before from other parameters is out of date from now on. Raises ParameterError
    for one that is missing, of the wrong type or given by two names, and PrerequisiteMissing or
    SeveralMissing for packages that are missing or have a version that offsetbook does not support.
    """
    end_plans()
    require_installation()
    declared = _as_here(read_parameters(find_notebook(notebook)), notebook, kernel)
    if missing := [p.name for p in declared if p.name not in kernel]:
        raise ParameterError(
            f"{notebook}: parameter {', '.join(missing)} is not set",
            hint="run the parameters cell; if it has no such line, update this copy with "
            "offsetbook init --update",
        )
    given = NotebookParameters(notebook, {p.name: p.default for p in declared}, kernel)
    check_parameters(declared, given.values, notebook=notebook)
    return given


def _as_here(
    declared: tuple[Parameter, ...], notebook: str, kernel: MutableMapping[str, Any]
) -> tuple[Parameter, ...]:
    """Accept values of old names, with a note, and return the parameters of this copy."""
    names = [parameter.name for parameter in declared]
    cell, _ = running_cell()
    used = renamed_in_kernel(names, kernel, notebook=notebook, by_hand=bool(cell))
    for notice in rename_notices(used, names):
        show_notice(sentence(notice), tone=NoticeTone.NOTE)
    # A copy from before has the old line alone.
    older = {new: old for old, new in used.items() if new not in kernel}
    return tuple(
        replace(p, name=older[p.name], type=ONE_NAME, default="") if p.name in older else p
        for p in declared
    )
