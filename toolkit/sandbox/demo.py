"""The demonstration: two clusters, the reading notebooks, and what they found."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.journeys.unsubscribed import unsubscribed
from toolkit.runner.execution import CellStep
from toolkit.runner.notebooks import find_notebook
from toolkit.runner.result import RunResult
from toolkit.runner.run_notebook import run_notebook
from toolkit.sandbox.fleet import NAMES, Sandbox
from toolkit.storage.fleet_file import VARIABLE

FINDINGS = ["cluster", "group", "topic", "partition", "lag", "group_lag_share", "other_subscribers"]


class Demonstration(NamedTuple):
    """The unsubscribed offsets of all clusters, and one result a run."""

    findings: pd.DataFrame
    runs: list[RunResult]


def demonstrate(
    state_dir: Path, output_dir: Path, *, on_step: Callable[[str], None]
) -> Demonstration:
    """
    Start a fresh sandbox, run notebooks 20 and 10 against it, stop and remove what was started.

    `state_dir` is always the same one, so that what a killed demonstration left running is found
    and ended by the next. Raises ToolkitError where a step cannot be taken; a notebook that
    fails is in its result.
    """
    sandbox = Sandbox(state_dir)
    _remove(sandbox, on_step)
    try:
        clusters = sandbox.up(NAMES, on_step=on_step)
        # Not as a parameter: the commands in the reports would name a file that is removed.
        os.environ[VARIABLE] = str(sandbox.fleet_file.absolute())
        found = [unsubscribed(ClusterAccess(cluster)).rows for cluster in clusters]
        given = [("20", {"cluster": name}) for name in NAMES] + [("10", {"clusters": list(NAMES)})]
        runs = []
        for number, parameters in given:
            notebook = find_notebook(number)
            about = ", ".join(NAMES) if number == "10" else parameters["cluster"]
            on_step(f"running {notebook.stem} on {about}")
            runs.append(
                run_notebook(
                    notebook,
                    parameters=parameters,
                    output_dir=output_dir,
                    on_step=lambda step: on_step(_words(step)),
                )
            )
    finally:
        _remove(sandbox, on_step)
    return Demonstration(pd.concat(found, ignore_index=True)[FINDINGS], runs)


def _remove(sandbox: Sandbox, on_step: Callable[[str], None]) -> None:
    sandbox.down(on_step=on_step)
    shutil.rmtree(sandbox.state_dir, ignore_errors=True)


def _words(step: CellStep) -> str:
    return f"  [{step.number}/{step.total}] {step.heading}"
