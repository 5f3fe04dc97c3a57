"""A line in JupyterLab that says what a long cell is doing, and for how long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import uuid4

from toolkit.report.display import OutputRole, display_output, is_headless, running_shell
from toolkit.report.safe_names import in_html, sentence, visible

TICK_S = 1.0


@contextmanager
def progress_line(doing: str) -> Iterator[Callable[[str], None]]:
    """
    Show what is being done, how long it has taken and, by the function yielded, which step it is.

    Outside JupyterLab, and in a headless run, nothing is shown.
    """
    if is_headless() or running_shell() is None:
        yield lambda _: None
        return
    line, ended = _Line(doing), threading.Event()

    def tick() -> None:
        while not ended.wait(TICK_S):
            line.show()

    ticker = threading.Thread(target=tick, daemon=True)
    ticker.start()
    try:
        yield line.step
    finally:
        ended.set()
        ticker.join()
        line.end()


class _Line:
    def __init__(self, doing: str) -> None:
        self.doing, self.now, self.name, self.began = doing, "", uuid4().hex, time.monotonic()
        self._put(f"{self.doing}…", is_update=False)

    def step(self, words: str) -> None:
        self.now = words
        self.show()

    def show(self) -> None:
        more = f" · {self.now}" if self.now else ""
        self._put(f"{self.doing}… {self.taken_s:.0f} s{more}")

    def end(self) -> None:
        self._put(f"{self.doing}: took {self.taken_s:.0f} s")

    @property
    def taken_s(self) -> float:
        return time.monotonic() - self.began

    def _put(self, words: str, *, is_update: bool = True) -> None:
        html = f'<p role="status" style="opacity:.75">{in_html(sentence(words))}</p>'
        data = {"text/html": html, "text/plain": visible(words)}
        display_output(data, role=OutputRole.LIVE_ONLY, display_id=self.name, is_update=is_update)
