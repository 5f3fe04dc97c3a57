"""The memory and the CPU that processes and all their children use."""

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

import psutil


def cpu_s(process: psutil.Process) -> float:
    """Return the CPU seconds of a process and of those that it started, Spark's among them."""
    total = 0.0
    for one in (process, *process.children(recursive=True)):
        with suppress(psutil.Error):  # it has ended
            used = one.cpu_times()
            total += used.user + used.system + used.children_user + used.children_system
    return total


class Watch:
    """The most memory (PSS) that this process and others hold, with all children; and their CPU."""

    def __init__(self, others: Sequence[int] = ()) -> None:
        self.peaks: dict[str, float] = {}  # MiB of the largest process of a kind
        self.peak_mib = self.cpu_s = 0.0  # of all together
        self._me = psutil.Process()
        self._roots = [self._me, *map(psutil.Process, others)]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Self:
        self._before = sum(map(cpu_s, self._roots))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self.cpu_s = sum(map(cpu_s, self._roots)) - self._before

    def _look(self) -> None:
        while not self._ended.wait(1):
            total = 0.0
            for root in self._roots:
                for process in (root, *root.children(recursive=True)):
                    with suppress(psutil.Error):  # it has ended
                        held = process.memory_full_info().pss / 2**20
                        kind = self._kind(process, root)
                        self.peaks[kind] = max(held, self.peaks.get(kind, 0))
                        total += held
            self.peak_mib = max(self.peak_mib, total)

    def _kind(self, process: psutil.Process, root: psutil.Process) -> str:
        if process == self._me:
            return "driver's Python"
        if "python" in process.name():
            return "largest Python worker"
        if root == self._me:
            return "driver's JVM"
        return "largest JVM of an executor" if process != root else "Spark's own worker"
