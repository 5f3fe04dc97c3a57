"""
The kernel process of a run: every interrupt during a cell ends that cell, with a reply.

ipykernel ignores an interrupt that comes before the cell's code has begun, and sends no reply if
one comes just before or after the code: the runner would then wait for ever.
"""

from __future__ import annotations

from signal import SIGINT, default_int_handler, signal
from types import FrameType
from typing import Any

from ipykernel.ipkernel import IPythonKernel


class InterruptibleKernel(IPythonKernel):
    """IPython kernel that loses no interrupt and always replies."""

    _interrupted = False

    def start(self) -> None:
        """Start to handle requests, and remember the interrupts that come between them."""
        super().start()  # type: ignore[no-untyped-call]  # ipykernel leaves it untyped
        signal(SIGINT, self._remember)

    async def execute_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Run a cell; interrupted outside its code, it ends as if that had been inside."""
        try:
            try:
                signal(SIGINT, default_int_handler)
                if self._interrupted:
                    raise KeyboardInterrupt
                await self._execute(stream, ident, parent)
            finally:
                signal(SIGINT, self._remember)
        except KeyboardInterrupt:
            # Again, because the interrupt may have come just before the line above.
            signal(SIGINT, self._remember)
            self._interrupted = False
            parent["content"]["code"] = "raise KeyboardInterrupt"
            await self._execute(stream, ident, parent)

    async def _execute(self, *request: Any) -> None:
        await super().execute_request(*request)  # type: ignore[no-untyped-call]  # untyped too

    def pre_handler_hook(self) -> None:
        """Leave the handler as it is: `execute_request` sets it where an interrupt is caught."""

    def post_handler_hook(self) -> None:
        """Leave the handler as it is."""

    def _remember(self, _number: int, _frame: FrameType | None) -> None:
        self._interrupted = True
