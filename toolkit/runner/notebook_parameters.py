"""What the first cell of a notebook checks before anything is read: packages and parameters."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from toolkit.errors import ParameterError
from toolkit.journeys.installation import require_installation
from toolkit.report.plan_inputs import NotebookParameters, end_plans
from toolkit.runner.notebooks import find_notebook
from toolkit.runner.parameters import check_parameters, read_parameters


def parameters(notebook: str, kernel: MutableMapping[str, Any]) -> NotebookParameters:
    """
    Check what is installed, and the parameters: `parameters("50_reset_offsets", vars())`.

    What was planned before from other parameters is out of date from now on. Raises ParameterError
    for one that is missing or of the wrong type, and PrerequisiteMissing or SeveralMissing for
    packages that are missing or have a version that offsetbook does not support.
    """
    end_plans()
    require_installation()
    declared = read_parameters(find_notebook(notebook))
    if missing := [p.name for p in declared if p.name not in kernel]:
        raise ParameterError(
            f"{notebook}: parameter {', '.join(missing)} is not set",
            hint="run the parameters cell; if it has no such line, update this copy with "
            "offsetbook init --update",
        )
    given = NotebookParameters(notebook, {p.name: p.default for p in declared}, kernel)
    check_parameters(declared, given.values, notebook=notebook)
    return given
