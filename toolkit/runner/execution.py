"""Run the cells of one notebook through papermill, save them, and say why they stopped."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from toolkit.errors import RunFailed, StateFileError, ToolkitError
from toolkit.report.executed_cells import has_error, is_step
from toolkit.runner.notebooks import read_notebook
from toolkit.runner.result import RunStatus, StepFailed
from toolkit.runner.run_log import RunLog
from toolkit.runner.time_limits import TimeLimits
from toolkit.storage.formats.atomic_files import write_whole

_STATUS_OF_EXIT = {3: RunStatus.BLOCKED, 4: RunStatus.PARTLY_APPLIED}
_AUTOSAVE_S = 5  # how much output of a running cell a killed run may lose
_LONGEST_REASON = 1000
_SCHEME = "offsetbook-run:"  # of the names by which papermill writes


@dataclass(frozen=True, slots=True)
class CellStep:
    """A code cell that is about to run."""

    number: int  # from 1
    total: int
    heading: str


@dataclass(frozen=True, slots=True)
class RunEnd:
    """Why the cells stopped running: they all ran, unless there is an error."""

    status: RunStatus = RunStatus.DONE
    exit_code: int = 0
    error: StepFailed | None = None


@dataclass(frozen=True, slots=True)
class NotebookJob:
    """What to execute: the notebook, what its kernel is given, and how long it may take."""

    notebook: Path
    parameters: Mapping[str, object]
    environment: Mapping[str, str]
    limits: TimeLimits
    on_step: Callable[[CellStep], None]


def execute(job: NotebookJob, path: Path, log: RunLog) -> RunEnd:
    # Half a second of imports that a wrong parameter must not cost.
    import papermill  # noqa: PLC0415
    from nbclient.exceptions import DeadKernelError  # noqa: PLC0415
    from papermill.exceptions import PapermillExecutionError  # noqa: PLC0415

    from toolkit.runner.kernel import Interruption, StoppedBetweenCells  # noqa: PLC0415

    interruption = Interruption(job.limits, log.file)
    executed = NotebookWriter(path)
    progress = _StepCounter(read_notebook(job.notebook)["cells"], job.on_step)
    try:
        with interruption.watching(), _quiet_papermill(), executed.registered() as name:
            papermill.execute_notebook(
                str(job.notebook),
                name,
                parameters=dict(job.parameters),
                progress_bar=False,
                autosave_cell_every=_AUTOSAVE_S,
                # Widget state would keep the content of a password field, in clear text.
                store_widget_state=False,
                kernel_manager_class=interruption.kernel_class(job.environment),
                on_cell_start=progress.before_cell,
                on_cell_execute=lambda **_: interruption.cell_sent(),
                on_cell_executed=lambda **_: interruption.cell_ended(),
            )
    except PapermillExecutionError as exc:
        stop = _after_error(executed.cells, exc.ename, exc.evalue, by=interruption.stopped_by)
    except (KeyboardInterrupt, StoppedBetweenCells):
        reason = f"{interruption.stopped_by or 'an interrupt'} stopped the run"
        stop = RunEnd(RunStatus.INTERRUPTED, 1, _at_cell(executed.cells, progress.index, reason))
    except DeadKernelError:
        reason = "the kernel died during this step; its progress is unknown"
        if interruption.timed_out:
            reason = f"{interruption.stopped_by} was exceeded, and the kernel was killed: {reason}"
        stop = RunEnd(RunStatus.KERNEL_DIED, 1, _at_cell(executed.cells, progress.index, reason))
    except RuntimeError as exc:
        raise RunFailed(
            f"{job.notebook.name} could not be started: {exc}",
            hint="run python -m ipykernel --version to check the kernel",
        ) from exc
    else:
        stop = _after_last_cell(executed.cells)
    if stop.status is RunStatus.INTERRUPTED and interruption.timed_out:
        stop = replace(stop, status=RunStatus.TIMED_OUT)
    if executed.why_not_written and stop.error is None:
        stop = RunEnd(RunStatus.FAILED, 1, StepFailed(executed.why_not_written))
    return stop


class NotebookWriter:
    """
    Where the executed notebook of one run goes, for papermill.

    A full disk must not stop the cell that runs: it may be changing a cluster. So a write error is
    stored, and reported at the end. The file is written whole or not at all.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.why_not_written = ""
        self._last = ""

    @property
    def cells(self) -> list[dict[str, Any]]:
        """The cells as they were last written, or should have been."""
        cells: list[dict[str, Any]] = json.loads(self._last)["cells"] if self._last else []
        return cells

    @contextmanager
    def registered(self) -> Iterator[str]:
        """Let papermill write here; yields the name by which it does."""
        from papermill.iorw import papermill_io  # noqa: PLC0415 - slow to import

        name = f"{_SCHEME}{self.path}"
        papermill_io.register(name, self)
        try:
            yield name
        finally:
            papermill_io._handlers.remove((name, self))  # noqa: SLF001 - there is no other way back

    def write(self, text: str, name: str) -> None:
        """Write the whole notebook, or remember why that was not possible."""
        self._last = text = text.replace(json.dumps(name), json.dumps(str(self.path)))
        try:
            write_whole(self.path, text, errors="backslashreplace")
            self.why_not_written = ""
        except StateFileError as exc:
            self.why_not_written = f"the executed notebook could not be written: {exc.problem}"

    def pretty_path(self, _name: str) -> str:
        return str(self.path)


class _StepCounter:
    """Turns papermill's cell numbers into steps for people, and remembers where the run is."""

    def __init__(self, cells: list[dict[str, Any]], on_step: Callable[[CellStep], None]) -> None:
        self.index: int | None = None
        self._on_step = on_step
        self._total = sum(is_step(cell) for cell in cells)
        self._begun = 0
        self._heading = ""

    def before_cell(self, cell: Mapping[str, Any], cell_index: int) -> None:
        self.index = cell_index
        if cell["cell_type"] == "markdown":
            self._heading = heading_of(cell) or self._heading
        elif is_step(cell) and not _is_injected(cell):
            self._begun += 1
            self._on_step(CellStep(self._begun, self._total, self._heading))


def heading_of(cell: Mapping[str, Any]) -> str:
    """The last heading in a Markdown cell; "" where it has none."""
    lines = "".join(cell["source"]).splitlines()
    return next((li.lstrip("# ").strip() for li in reversed(lines) if li.startswith("#")), "")


def _is_injected(cell: Mapping[str, Any]) -> bool:
    return "injected-parameters" in cell["metadata"].get("tags", ())


@contextmanager
def _quiet_papermill() -> Iterator[None]:
    """Hide papermill's own warnings about parameters and names: offsetbook's come before."""
    logger = logging.getLogger("papermill")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _after_error(executed: list[dict[str, Any]], name: str, text: str, *, by: str | None) -> RunEnd:
    """
    Say why a cell failed, from the name and the text of its exception.

    These two cross the border between kernel and runner in Jupyter's own error message, so the
    kernel needs no hook: the name finds the class in our error tree, and with it the exit code.
    """
    exit_codes = _exit_codes(ToolkitError)
    exit_code = exit_codes.get(name, 1)
    one_line = " ".join(text.split())
    reason = one_line if name in exit_codes and one_line else f"{name}: {one_line}".rstrip(": ")
    status = _STATUS_OF_EXIT.get(exit_code, RunStatus.FAILED)
    if exit_code == 1 and (by or name == "KeyboardInterrupt"):
        status = RunStatus.INTERRUPTED
        reason = f"{by or 'an interrupt'} stopped this step" + (
            "" if name == "KeyboardInterrupt" else f", which ended with {reason}"
        )
    index = _failed_index(executed)
    return RunEnd(status, exit_code, _at_cell(executed, index, reason))


def _after_last_cell(executed: list[dict[str, Any]]) -> RunEnd:
    """Papermill calls a notebook complete that left through `sys.exit(0)`; it is not."""
    index = _failed_index(executed)
    if index is None:
        return RunEnd()
    return RunEnd(RunStatus.FAILED, 1, _at_cell(executed, index, "the notebook called sys.exit()"))


def _exit_codes(error: type[ToolkitError]) -> dict[str, int]:
    codes = {error.__name__: error.exit_code}
    for child in error.__subclasses__():
        codes |= _exit_codes(child)
    return codes


def _failed_index(cells: list[dict[str, Any]]) -> int | None:
    return next((index for index, cell in enumerate(cells) if has_error(cell)), None)


def _at_cell(executed: list[dict[str, Any]], index: int | None, reason: str) -> StepFailed:
    """Name the step: a heading says more to a person than the number of a cell."""
    before = [] if index is None else executed[: index + 1]
    headings = [heading_of(cell) for cell in before if cell["cell_type"] == "markdown"]
    step = next((heading for heading in reversed(headings) if heading), "")
    short = reason if len(reason) <= _LONGEST_REASON else reason[:_LONGEST_REASON] + "…"
    return StepFailed(reason=short, cell=index, step=step)
