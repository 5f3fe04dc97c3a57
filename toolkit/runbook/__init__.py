"""
Run a notebook headlessly and leave an account of it.

`run_notebook` checks the parameters, executes the notebook through papermill and leaves a folder
with the executed notebook, a report and `result.json`. The notebook's last cell calls `conclude`.
"""

from toolkit.runbook.conclusion import Ending, conclude
from toolkit.runbook.execution import Step
from toolkit.runbook.notebooks import find_notebook
from toolkit.runbook.parameters import (
    Parameter,
    check_parameters,
    parse_parameters,
    read_parameters,
)
from toolkit.runbook.result import RunResult, Status
from toolkit.runbook.run import run_notebook

__all__ = [
    "Ending",
    "Parameter",
    "RunResult",
    "Status",
    "Step",
    "check_parameters",
    "conclude",
    "find_notebook",
    "parse_parameters",
    "read_parameters",
    "run_notebook",
]
