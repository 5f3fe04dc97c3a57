"""
Run the cells of one notebook through papermill, save them, and say why they stopped.

The kernel is of the running interpreter. Papermill passes no signal on: after SIGTERM the kernel
vanishes and a hold or an undo record stays half done. Here the signal interrupts the running cell,
which may clean up for as long as it needs; the run then ends as after any failed cell. A second
signal stops it without waiting. A time limit interrupts in the same way, and ends a kernel that
does not heed it.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import IO, Any

from ipykernel.kernelspec import get_kernel_dict
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from toolkit.errors import RunFailed, StateFileError, ToolkitError
from toolkit.model.times import format_duration
from toolkit.runner.result import RunStatus, StepFailed
from toolkit.runner.run_log import RunLog
from toolkit.runner.time_limits import TimeLimits
from toolkit.storage.formats.atomic_files import folder_for_sockets, write_whole

_KERNEL_CLASS = "--IPKernelApp.kernel_class=toolkit.runner.interruptible_kernel.InterruptibleKernel"
# Ctrl-C reaches every process of a terminal, and the parent of this one may forward it as well.
_SAME_REQUEST_S = 1.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StoppedBetweenCells(Exception):
    """
    A signal came while no cell was running.

    Not a KeyboardInterrupt: where the caller has an event loop, the cells run in another thread,
    and an exception of that kind would end the thread without a message.
    """


class RunningInterpreter(KernelSpecManager):
    """Kernel manager that always uses the current Python interpreter."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:  # noqa: ARG002 - see the docstring
        """Describe the running interpreter as a kernel."""
        # Before 9.7 IPython ignores PYTHONSAFEPATH.
        return KernelSpec(**get_kernel_dict(["--IPKernelApp.ignore_cwd=True", _KERNEL_CLASS]))


class Interruption:
    """Stops one run: on SIGINT, SIGTERM and SIGHUP, and when a time limit is over."""

    def __init__(self, limits: TimeLimits, log: IO[bytes]) -> None:
        """Start without a kernel and without a cell; what kernels print goes to the log."""
        self.stopped_by: str | None = None  # the first signal's name, or the limit
        self.timed_out = False
        self._limits = limits
        self._log = log
        self._kernel: AsyncKernelManager | None = None
        self._cell_began: float | None = None
        self._stopped_at = 0.0
        self._timers: list[threading.Timer] = []

    def kernel_class(self, environment: Mapping[str, str]) -> type[AsyncKernelManager]:
        """Return the kernel manager class for this run, which starts kernels with `environment`."""
        interruption = self

        class RunKernel(AsyncKernelManager):
            def _kernel_spec_manager_default(self) -> KernelSpecManager:
                return RunningInterpreter(parent=self)

            # The base declares its synchronous form, and AsyncKernelManager replaces it.
            async def start_kernel(self, **options: Any) -> None:  # type: ignore[override]
                interruption._kernel = self
                # Socket files in a folder of our own, and not TCP: no other user of the host can
                # connect. Without a folder they would be made in the working directory.
                folder = folder_for_sockets()
                self.sockets = TemporaryDirectory(prefix="offsetbook-", dir=folder)
                self.transport = "ipc"
                self.ip = f"{self.sockets.name}/k"
                self.connection_file = f"{self.sockets.name}/connection.json"
                # A notebook must not import a yaml.py of the working directory.
                options["env"] = {**os.environ, "PYTHONSAFEPATH": "1", **environment}
                options |= {"stdout": interruption._log, "stderr": interruption._log}
                await super().start_kernel(**options)

            async def cleanup_resources(self, restart: bool = False) -> None:  # type: ignore[override]  # noqa: FBT001, FBT002 - the base's signature
                await super().cleanup_resources(restart)
                self.sockets.cleanup()

        return RunKernel

    def cell_sent(self) -> None:
        """Note that a cell now runs in the kernel; stop the run instead if a stop was requested."""
        if self.stopped_by:
            raise StoppedBetweenCells
        self._cell_began = time.monotonic()
        if self._limits.step_s is not None:
            self._after(self._limits.step_s, self._end_step, self._cell_began)

    def cell_ended(self) -> None:
        """Note that no cell runs any more."""
        self._cell_began = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Handle the signals and the time limits while the run lasts."""
        # Only the main thread may handle signals; a caller in another thread handles them itself.
        is_main = threading.current_thread() is threading.main_thread()
        before = {number: signal.getsignal(number) for number in _SIGNALS if is_main}
        # A process that was started to ignore a signal (nohup, a job in a script) still ignores it.
        handled = [number for number in before if before[number] is not signal.SIG_IGN]
        for number in handled:
            signal.signal(number, self._on_signal)
        if self._limits.run_s is not None:
            self._after(self._limits.run_s, self._end_run)
        try:
            yield
        finally:
            for timer in self._timers:
                timer.cancel()
            for number in handled:
                signal.signal(number, before[number])

    def _after(self, seconds: float, work: Callable[..., None], *given: object) -> None:
        timer = threading.Timer(seconds, work, given)
        timer.daemon = True
        self._timers = [*(old for old in self._timers if old.is_alive()), timer]
        timer.start()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if not self.stopped_by:
            self._stop(signal.Signals(number).name)
        elif time.monotonic() - self._stopped_at > _SAME_REQUEST_S:
            raise KeyboardInterrupt  # requested twice: do not wait for the cell

    def _end_step(self, began: float) -> None:
        if self._cell_began == began and not self.stopped_by:
            self._time_out(
                f"the time limit of a step, {format_duration(self._limits.step_s or 0)},"
            )

    def _end_run(self) -> None:
        if not self.stopped_by:
            self._time_out(
                f"the time limit of the run, {format_duration(self._limits.run_s or 0)},"
            )

    def _time_out(self, limit: str) -> None:
        self.timed_out = True
        self._stop(limit)
        if self._cell_began is not None:
            self._after(self._limits.grace_s, self._signal_kernel, signal.SIGKILL, self._cell_began)

    def _stop(self, stopped_by: str) -> None:
        """Interrupt the running cell; without one, the next cell will not start."""
        self.stopped_by, self._stopped_at = stopped_by, time.monotonic()
        if (began := self._cell_began) is not None:
            self._signal_kernel(signal.SIGINT, began)

    def _signal_kernel(self, number: signal.Signals, began: float) -> None:
        """Send a signal to the kernel, unless the cell that began then has ended meanwhile."""
        kernel = self._kernel.provisioner if self._kernel else None
        if isinstance(kernel, LocalProvisioner) and kernel.process and self._cell_began == began:
            # The kernel alone and not its process group: what it started is its own to stop.
            # A kernel that has just died gets none, and that is no error.
            kernel.process.send_signal(number)


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
    """Execute a notebook cell by cell, saving it at `path` as it grows."""
    # Half a second of imports that a wrong parameter must not cost.
    import papermill  # noqa: PLC0415
    from nbclient.exceptions import DeadKernelError  # noqa: PLC0415
    from papermill.exceptions import PapermillExecutionError  # noqa: PLC0415

    from toolkit.runner.execution import Interruption, StoppedBetweenCells  # noqa: PLC0415

    interruption = Interruption(job.limits, log.file)
    executed = NotebookWriter(path)
    progress = _StepCounter(_cells(job.notebook), job.on_step)
    try:
        with interruption.watching(), _quiet_papermill(), executed.registered() as name:
            papermill.execute_notebook(
                str(job.notebook),
                name,
                parameters=dict(job.parameters),
                progress_bar=False,
                autosave_cell_every=_AUTOSAVE_S,
                # Widget state would keep what was typed into a password field, in clear text.
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
        """Return the path as papermill shows it."""
        return str(self.path)


class _StepCounter:
    """Turns papermill's cell numbers into steps for people, and remembers where the run is."""

    def __init__(self, cells: list[dict[str, Any]], on_step: Callable[[CellStep], None]) -> None:
        self.index: int | None = None
        self._on_step = on_step
        self._total = sum(_runs(cell) for cell in cells)
        self._begun = 0
        self._heading = ""

    def before_cell(self, cell: Mapping[str, Any], cell_index: int) -> None:
        self.index = cell_index
        if cell["cell_type"] == "markdown":
            self._heading = heading_of(cell) or self._heading
        elif _runs(cell) and not _is_injected(cell):
            self._begun += 1
            self._on_step(CellStep(self._begun, self._total, self._heading))


def heading_of(cell: Mapping[str, Any]) -> str:
    """The last heading in a Markdown cell; "" where it has none."""
    lines = "".join(cell["source"]).splitlines()
    return next((li.lstrip("# ").strip() for li in reversed(lines) if li.startswith("#")), "")


def _runs(cell: Mapping[str, Any]) -> bool:
    return cell["cell_type"] == "code" and bool("".join(cell["source"]).strip())


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
    """The exit code of an error and of all its children, by name."""
    codes = {error.__name__: error.exit_code}
    for child in error.__subclasses__():
        codes |= _exit_codes(child)
    return codes


def _cells(notebook: Path) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return cells


def _failed_index(cells: list[dict[str, Any]]) -> int | None:
    for index, cell in enumerate(cells):
        if any(output["output_type"] == "error" for output in cell.get("outputs", ())):
            return index
    return None


def _at_cell(executed: list[dict[str, Any]], index: int | None, reason: str) -> StepFailed:
    """Name the step: a heading says more to a person than the number of a cell."""
    before = [] if index is None else executed[: index + 1]
    headings = [heading_of(cell) for cell in before if cell["cell_type"] == "markdown"]
    step = next((heading for heading in reversed(headings) if heading), "")
    short = reason if len(reason) <= _LONGEST_REASON else reason[:_LONGEST_REASON] + "…"
    return StepFailed(reason=short, cell=index, step=step)
