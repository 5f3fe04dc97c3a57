"""
Run a runbook on several clusters in parallel, one process per cluster.

What happens to one does not touch the others. SIGINT, SIGTERM and SIGHUP are passed on, so that
every kernel may clean up, and nothing more is begun; a second one ends them without waiting.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from toolkit.errors import UsageError
from toolkit.model.stop_signals import handled_stop_signals
from toolkit.runbooks.run_process import RunOrder
from toolkit.runner.result import message_of

# What matters most to the operator on call comes first.
_WORST_FIRST = (1, 2, 4, 3, 0)
_NEVER_BEGUN = "not started: the other runs were stopped"


@dataclass(frozen=True, slots=True)
class ClusterRunResult:
    """
    How one run ended.

    `result` is the content of its `result.json`; None where there is no run that left one, and
    then `why` says so. `begun` is False where the run was not begun.
    """

    clusters: tuple[str, ...]
    exit_code: int
    result: Mapping[str, Any] | None = None
    why: str = ""
    begun: bool = True

    @property
    def status(self) -> str:
        """The status of the run; "no result" without one, "blocked" where it may not begin."""
        if self.result:
            return str(self.result["status"])
        return "blocked" if self.exit_code == _BLOCKED else "no result"

    @property
    def changed(self) -> int:
        return int(self.result["counts"].get("changed", 0)) if self.result else 0

    @property
    def may_have_changed(self) -> bool:
        """Whether it changed something, or ended in a way in which that is not known."""
        if self.result is None:
            return self.begun and self.status == "no result"
        is_known = "changed" in self.result["counts"] or self.status in _SAYS_WHAT_IT_DID
        return self.changed > 0 or not (is_known or self.result["parameters"].get("dry_run"))

    @property
    def message(self) -> str:
        return self.why if self.result is None else message_of(self.result)

    @property
    def undo(self) -> str:
        """The run that undoes what it changed; "" without one."""
        return (self.result and self.result["undo"]) or ""


_BLOCKED = 3
_SAYS_WHAT_IT_DID = frozenset({"done", "blocked", "incomplete"})
OnStep = Callable[[RunOrder, Mapping[str, Any]], None]


def run_all(orders: Sequence[RunOrder], *, at_once: int, on_step: OnStep) -> list[ClusterRunResult]:
    """
    Carry out all orders, at most so many at once, and return how each ended, in their order.

    `on_step` is called with the steps of each, from several threads.
    """
    children = _Children()
    with handled_stop_signals(children.on_signal), ThreadPoolExecutor(at_once) as pool:
        futures = [pool.submit(children.carry_out, order, on_step) for order in orders]
        return [future.result() for future in futures]


def exit_code(ended: Sequence[ClusterRunResult]) -> int:
    """Return the exit code of all together: that of the worst."""
    codes = {one.exit_code for one in ended}
    return next((code for code in _WORST_FIRST if code in codes), 1 if codes else 0)


@dataclass
class _Children:
    """The processes that run now, and whether any more are to begin."""

    running: set[subprocess.Popen[str]] = field(default_factory=set)
    stopped: bool = False
    lock: threading.RLock = field(default_factory=threading.RLock)

    def carry_out(self, order: RunOrder, on_step: OnStep) -> ClusterRunResult:
        clusters = tuple(order.clusters)
        with self.lock:
            if self.stopped:
                return ClusterRunResult(clusters, 1, why=_NEVER_BEGUN, begun=False)
            # A session of its own: Ctrl-C comes to it from here, and only once.
            child = subprocess.Popen(
                [sys.executable, "-P", "-m", "toolkit.runbooks.run_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                start_new_session=True,
            )
            self.running.add(child)
        try:
            with child:
                last = _listen(child, order, on_step)
        finally:
            with self.lock:
                self.running.discard(child)
        return _ended(clusters, child.returncode, last)

    def on_signal(self, number: int, _frame: FrameType | None) -> None:
        """Pass a signal on, and begin nothing more."""
        with self.lock:
            self.stopped = True
            for child in self.running:
                child.send_signal(number)


def _listen(child: subprocess.Popen[str], order: RunOrder, on_step: OnStep) -> dict[str, Any]:
    if child.stdin is None or child.stdout is None:
        raise AssertionError
    last: dict[str, Any] = {}
    with suppress(BrokenPipeError):  # it died at once; its exit code is the reason
        child.stdin.write(order.to_json() + "\n")
        child.stdin.flush()
    for line in child.stdout:
        last = json.loads(line)
        if "step" in last:
            on_step(order, last["step"])
    return last


def _ended(clusters: tuple[str, ...], code: int, last: Mapping[str, Any]) -> ClusterRunResult:
    if "result" in last:
        return ClusterRunResult(clusters, last["result"]["exit_code"], last["result"])
    if error := last.get("error"):
        hint = f". Try: {error['hint']}" if error["hint"] else ""
        code, why = error["exit_code"], f"{error['problem']}{hint}"
        return ClusterRunResult(clusters, code, why=why, begun=code != UsageError.exit_code)
    how = signal.Signals(-code).name if code < 0 else f"exit {code}"
    why = f"the run ended without a result ({how}); see the audit log for what was changed"
    return ClusterRunResult(clusters, 1, why=why)
