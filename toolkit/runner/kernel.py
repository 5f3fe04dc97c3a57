"""
The kernel of one run: on the running interpreter, with an interrupt that lets `finally` work.

Papermill passes no signal on: after SIGTERM the kernel vanishes and a hold or an undo record stays
half done. Here the signal interrupts the running cell, which may clean up for as long as it needs;
the run then ends as after any failed cell. A second signal stops it without waiting. A time limit
interrupts in the same way, and ends a kernel that does not heed it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from types import FrameType
from typing import IO, Any

from ipykernel.kernelspec import get_kernel_dict
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from toolkit.model.stop_signals import handled_stop_signals
from toolkit.model.times import format_duration
from toolkit.runner.time_limits import TimeLimits
from toolkit.storage.formats.atomic_files import folder_for_sockets

_KERNEL_CLASS = "--IPKernelApp.kernel_class=toolkit.runner.interruptible_kernel.InterruptibleKernel"
# Ctrl-C reaches every process of a terminal, and the parent of this one may forward it as well.
_SAME_REQUEST_S = 1.0


class StoppedBetweenCells(Exception):
    """
    A signal came while no cell was running.

    Not a KeyboardInterrupt: where the caller has an event loop, the cells run in another thread,
    and an exception of that kind would end the thread without a message.
    """


class RunningInterpreter(KernelSpecManager):
    """Kernel manager that always uses the current Python interpreter."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:  # noqa: ARG002 - always the running one
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
        if (limit_s := self._limits.step_s) is not None:
            self._after(limit_s, self._time_out, "a step", limit_s, self._cell_began)

    def cell_ended(self) -> None:
        self._cell_began = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Let signals and time limits stop the run; outside the main thread, time limits alone."""
        if (limit_s := self._limits.run_s) is not None:
            self._after(limit_s, self._time_out, "the run", limit_s)
        with handled_stop_signals(self._on_signal):
            try:
                yield
            finally:
                for timer in self._timers:
                    timer.cancel()

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

    def _time_out(self, what: str, limit_s: float, began: float | None = None) -> None:
        """Stop the run, unless the cell that began then has ended meanwhile."""
        if self.stopped_by or began not in {None, self._cell_began}:
            return
        self.timed_out = True
        self._stop(f"the time limit of {what}, {format_duration(limit_s)},")
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
            # The kernel alone, not its process group: it stops what it has started.
            # A kernel that has just died gets none, and that is no error.
            kernel.process.send_signal(number)
