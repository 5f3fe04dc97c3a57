"""
The kernel of one run: on the running interpreter, with an interrupt that lets `finally` work.

Papermill passes no signal on: after SIGTERM the kernel vanishes and a hold or an undo record stays
half done. Here the signal interrupts the running cell, which may clean up for as long as it needs;
the run then ends as after any failed cell. A second signal stops it without waiting.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

from ipykernel.kernelspec import get_kernel_dict
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

# The kernel drops an interrupt that comes before it has begun with the cell it was sent.
_SURELY_BEGUN_S = 0.5
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StoppedBetweenCells(Exception):
    """
    A signal came while no cell was running.

    Not a KeyboardInterrupt: where the caller has an event loop, the cells run in another thread,
    and an exception of that kind would end the thread without telling anybody.
    """


class RunningInterpreter(KernelSpecManager):
    """Whatever name a notebook asks for, the kernel is the Python that runs this."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:  # noqa: ARG002 - see the docstring
        """Describe the running interpreter as a kernel."""
        return KernelSpec(**get_kernel_dict())


class Interruption:
    """Watches for SIGINT, SIGTERM and SIGHUP during one run and passes them on to the cell."""

    def __init__(self) -> None:
        """Start without a kernel and without a cell."""
        self.asked_by: str | None = None  # the first signal's name
        self._kernel: AsyncKernelManager | None = None
        self._cell_began: float | None = None

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
                # connect. Without a folder they would be made where the caller stands.
                self.sockets = TemporaryDirectory(prefix="offsetbook-")
                self.transport = "ipc"
                self.ip = f"{self.sockets.name}/k"  # short: a socket's path has 100 characters
                self.connection_file = f"{self.sockets.name}/connection.json"
                options["env"] = {**os.environ, **environment}
                await super().start_kernel(**options)

            async def cleanup_resources(self, restart: bool = False) -> None:  # type: ignore[override]  # noqa: FBT001, FBT002 - the base's signature
                await super().cleanup_resources(restart)
                self.sockets.cleanup()

        return RunKernel

    def cell_sent(self) -> None:
        """Note that a cell now runs in the kernel; stop the run instead when a signal has come."""
        if self.asked_by:
            raise StoppedBetweenCells
        self._cell_began = time.monotonic()

    def cell_ended(self) -> None:
        """Note that no cell runs any more."""
        self._cell_began = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Handle the signals while the run lasts."""
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread may; who runs notebooks in threads handles signals itself
            return
        before = {number: signal.getsignal(number) for number in _SIGNALS}
        # What was started to ignore a signal (nohup, a job in a script) goes on ignoring it.
        handled = [number for number in _SIGNALS if before[number] is not signal.SIG_IGN]
        for number in handled:
            signal.signal(number, self._on_signal)
        try:
            yield
        finally:
            for number in handled:
                signal.signal(number, before[number])

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self.asked_by:
            raise KeyboardInterrupt  # asked twice: do not wait for the cell
        self.asked_by = signal.Signals(number).name
        began = self._cell_began
        if began is None:
            return  # the next cell will not start
        wait = max(0.0, began + _SURELY_BEGUN_S - time.monotonic())
        threading.Timer(wait, self._interrupt_cell, [began]).start()

    def _interrupt_cell(self, began: float) -> None:
        """Interrupt the cell that began then, unless it has ended meanwhile."""
        kernel = self._kernel.provisioner if self._kernel else None
        if isinstance(kernel, LocalProvisioner) and kernel.pid and self._cell_began == began:
            # The kernel alone and not its process group: what it started is its own to stop.
            os.kill(kernel.pid, signal.SIGINT)
