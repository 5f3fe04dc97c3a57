"""One line on a terminal that shows the current step, and for how long it has run."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Self

from toolkit.model.plurals import counted
from toolkit.model.times import format_duration

if TYPE_CHECKING:
    from toolkit.kafka_io.read_snapshot import Progress
    from toolkit.model import Cluster

TICK_S = 1.0


class ProgressLine:
    """One line on a terminal's stderr that is overwritten as the work in its block proceeds."""

    def __init__(self, subject: str, *, visible: bool) -> None:
        """Prepare a line about a cluster or a run; where there is no terminal nothing is shown."""
        self.subject = subject
        self.visible = visible
        self._began = time.monotonic()
        self._doing = ""
        self._shown = ""
        self._writing = Lock()
        self._ended: Event | None = None
        self._ticking: Thread | None = None
        self._stderr = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def __call__(self, progress: Progress) -> None:
        """Show how far the read is, in steps of a hundredth."""
        if self.visible:
            self.show(_in_words(progress))

    def show(self, text: str) -> None:
        """Show the current step, and the time it takes, until `clear`."""
        if not self.visible:
            return
        self._doing = text
        with self._writing:
            if self._ticking is None:
                # While Spark starts, what is written to stderr itself goes to a file.
                self._stderr = os.dup(2)
                self._ended = Event()
                self._ticking = Thread(target=self._tick, args=(self._ended,), daemon=True)
                self._ticking.start()
        self._draw()

    def clear(self) -> None:
        if self._ended is None or self._ticking is None:
            return
        self._ended.set()
        self._ticking.join()
        self._write("")
        os.close(self._stderr)
        self._ended = self._ticking = None

    def _tick(self, ended: Event) -> None:
        while not ended.wait(TICK_S):
            self._draw()

    def _draw(self) -> None:
        took = int(time.monotonic() - self._began)
        line = f"{self.subject}: {self._doing}" + (f", {format_duration(took)}" if took else "")
        # A line that is longer than the terminal could not be written over.
        self._write(line[: shutil.get_terminal_size().columns - 1])

    def _write(self, line: str) -> None:
        with self._writing:
            if line != self._shown:
                self._shown = line
                os.write(self._stderr, f"\r\033[K{line}".encode())


class ProgressOfClusters(ProgressLine):
    """The line of clusters that are read at the same time: how many are, and the last step."""

    def __init__(self, clusters: Sequence[Cluster], *, visible: bool) -> None:
        self._is_one = len(clusters) == 1
        subject = clusters[0].name if self._is_one else counted(len(clusters), "cluster")
        super().__init__(subject, visible=visible)
        self._read = 0

    def of(self, cluster: Cluster) -> Callable[[Progress], None]:
        """Return what shows how far the read of one cluster is."""
        if self._is_one:
            return self
        return lambda progress: self.show(
            f"{self._read:,} read, {cluster.name}: {_in_words(progress)}"
        )

    def count(self) -> None:
        self._read += 1


def _in_words(progress: Progress) -> str:
    """Return the step, with how much of it is done where that is known."""
    if not progress.total:
        return progress.step
    return f"{progress.step} {100 * progress.done // progress.total} %"
