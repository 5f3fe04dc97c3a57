"""Run a long action in a background thread with progress and a cancel button."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import ipywidgets
from traitlets import Unicode

from widgets.live_or_static import LiveOrStatic, in_html

TICK_S = 0.5
IDLE, RUNNING, DONE, FAILED = "idle", "running", "done", "failed"


class RunningJob:
    """Progress and cancellation state shared with a background action."""

    def __init__(self) -> None:
        self.stop_requested = threading.Event()
        self.message = ""
        self.done, self.total = 0, 0

    def report(self, message: str = "", *, done: int = 0, total: int = 0) -> None:
        self.message, self.done, self.total = message, done, total

    def stopped(self) -> str:
        """Return why to stop; "" if no stop was requested."""
        return "cancelled by the user" if self.stop_requested.is_set() else ""


Work = Callable[[RunningJob], Any]


class BackgroundRun(LiveOrStatic):
    """
    Runs one action at a time; `state` is idle, running, done or failed.

    What the action returns is on `result`, what it raises on `error`, and shown in place. Where it
    cannot be cancelled there is no button that says so. `lasting` work is ended before the kernel
    ends, as far as Jupyter waits for that (5 s).
    """

    state = Unicode(IDLE, read_only=True)

    def __init__(self, doing: str, *, cancellable: bool = True, lasting: bool = True) -> None:
        """Name what will be done, as in "Applying"."""
        super().__init__()
        self.doing, self.lasting = doing, lasting
        self.result: Any = None
        self.job = RunningJob()
        self._ended = threading.Event()
        self._ended.set()
        self._begun = 0.0
        self._lock = threading.Lock()
        self.line = ipywidgets.HTML()
        self.bar = ipywidgets.IntProgress(layout={"display": "none", "width": "12rem"})
        self.button = ipywidgets.Button(description="Cancel", layout={"display": "none"})
        self.button.on_click(self.guarded(self.cancel))
        self.cancellable = cancellable

    def start(self, work: Work, *, then: Callable[[], object] = lambda: None) -> bool:
        """Begin, and call `then` in the same thread at the end; False while something runs."""
        with self._lock:
            if not self._ended.is_set():
                return False
            self._ended.clear()
        self.job, self.result, self._begun = RunningJob(), None, time.monotonic()
        self.show_error(None)
        self.set_trait("state", RUNNING)
        self._render()
        threading.Thread(target=self._run, args=(work, then), daemon=not self.lasting).start()
        threading.Thread(target=self._tick, daemon=True).start()
        return True

    def cancel(self) -> None:
        """Ask the action to stop; what is begun is ended and recorded first."""
        self.job.stop_requested.set()
        self._render()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end; False where it did not come in time."""
        return self._ended.wait(timeout_s)

    def _run(self, work: Work, then: Callable[[], object]) -> None:
        ended_as = DONE
        try:
            self.result = work(self.job)
        except Exception as exc:  # noqa: BLE001 - it would not be shown otherwise
            ended_as = FAILED
            self.show_error(exc)
        self.set_trait("state", ended_as)
        self._render()
        try:
            then()
        except Exception as exc:  # noqa: BLE001 - as above
            self.show_error(exc)
        finally:
            self._ended.set()

    def _tick(self) -> None:
        while not self._ended.wait(TICK_S):
            self._render()

    def _render(self) -> None:
        is_running = self.state == RUNNING
        self.line.value = self.static_html() if is_running else ""
        self.bar.max, self.bar.value = max(self.job.total, 1), self.job.done
        self.bar.layout.display = "" if is_running and self.job.total > 1 else "none"
        self.button.layout.display = "" if is_running and self.cancellable else "none"
        self.button.disabled = bool(self.job.stopped())

    def live_form(self) -> tuple[ipywidgets.Widget, ...]:
        row = ipywidgets.HBox([self.bar, self.line, self.button])
        row.add_class("ow-running")
        return (row,)

    def static_html(self) -> str:
        return f'<span role="status">{in_html(self.text_form())}</span>'

    def text_form(self) -> str:
        if self.state != RUNNING:
            return f"{self.doing}: {self.state}"
        of = f" · {self.job.done:,} of {self.job.total:,}" if self.job.total > 1 else ""
        stopping = " · stopping after the current step" if self.job.stopped() else ""
        more = f" · {self.job.message}" if self.job.message else ""
        return f"{self.doing}… {time.monotonic() - self._begun:.0f} s{of}{more}{stopping}"
