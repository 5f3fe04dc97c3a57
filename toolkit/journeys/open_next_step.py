"""The next steps of a report: to open in JupyterLab, or as commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.report.display import is_headless
from toolkit.report.next_step_list import ShownStep, show_steps
from toolkit.report.run_command import NotebookCall, run_command
from toolkit.templates.filled_copies import write_filled_copy

if TYPE_CHECKING:
    from widgets.next_steps import NextSteps


def shown_step(
    title: str, why: str, call: NotebookCall, where: Mapping[str, object], *, button: str = ""
) -> ShownStep:
    """Return a step that a notebook takes; `where` has cluster, fleet_file and state."""
    own = {name: value for name, value in where.items() if value}
    if "clusters" in call.parameters:
        del own["cluster"]
    command = run_command(call, where)
    return ShownStep(title, why, call.notebook, {**own, **call.parameters}, command, button)


def open_or_show(steps: Sequence[ShownStep]) -> NextSteps | None:
    """
    Show steps, most urgent first, each with its notebook.

    In JupyterLab a button creates a copy of the notebook with the parameters filled in, and opens
    it.
    """
    if is_headless():
        show_steps(steps)
        return None
    return buttons_of(steps)


def buttons_of(steps: Sequence[ShownStep]) -> NextSteps:
    """Return the buttons of steps, as `open_or_show` shows them in JupyterLab."""
    from widgets.next_steps import NextSteps  # noqa: PLC0415 - only JupyterLab shows widgets

    def open_copy(step: ShownStep) -> Path:
        return write_filled_copy(step.notebook, step.parameters, Path())

    return NextSteps(steps, open_copy)
