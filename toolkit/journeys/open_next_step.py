"""What JupyterLab has buttons for, and other places commands: next steps, and saving records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.report.display import is_headless
from toolkit.report.next_step_list import ShownStep, show_steps
from toolkit.templates.working_copies import write_filled_copy

if TYPE_CHECKING:
    from toolkit.report.peek_report import PeekReport
    from widgets.next_steps import NextSteps
    from widgets.record_saver import RecordSaver


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
    from widgets.next_steps import NextSteps  # noqa: PLC0415 - only JupyterLab shows widgets

    def open_copy(step: ShownStep) -> Path:
        return write_filled_copy(step.notebook, step.parameters, Path())

    return NextSteps(steps, open_copy)


def saver_of(found: PeekReport) -> RecordSaver:
    from widgets.record_saver import RecordSaver  # noqa: PLC0415 - as above

    return RecordSaver(found.save, name=found.file_name, command=found.save_command)
