"""One line on a terminal that shows how far a reading or a change has come."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from toolkit.kafka_io.read_snapshot import Progress


class ProgressLine:
    """One line on a terminal's stderr that is written over as a read goes on."""

    def __init__(self, cluster: str, *, visible: bool) -> None:
        """Prepare a line for a cluster; where there is no terminal nothing is written."""
        self.cluster = cluster
        self.visible = visible
        self.shown = ""

    def __call__(self, progress: Progress) -> None:
        """Show how far the read is, in steps of a hundredth."""
        percent = 100 * progress.done // max(progress.total, 1)
        self.show(f"{progress.step} {percent} %")

    def show(self, text: str) -> None:
        """Show what is being done."""
        line = f"{self.cluster}: {text}"
        if self.visible and line != self.shown:
            self.shown = line
            click.echo(f"\r\033[K{line}", err=True, nl=False)

    def clear(self) -> None:
        """Take the line away."""
        if self.shown:
            click.echo("\r\033[K", err=True, nl=False)
