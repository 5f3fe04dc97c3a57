"""What is to be told before a change: runs that were cut off, and holds whose process is gone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from toolkit.cli.output import printable

if TYPE_CHECKING:
    from pathlib import Path

    from toolkit.model import Cluster
    from toolkit.operate.orphaned_holds import OrphanedHold


def tell_cut_off(cluster: Cluster, state: Path) -> None:
    """Say what a run did that was cut off on this cluster, once."""
    from toolkit.operate.apply import in_words
    from toolkit.operate.orphaned_holds import settle_holds
    from toolkit.operate.reconcile_runs import settle

    tell_left_behind(settle_holds(cluster, state))
    settled = settle(cluster, state)
    for intent, why in settled.unseen:
        click.echo(
            f"run {intent.run.run_id} ({printable(intent.request)}) was cut off, and what it did "
            f"cannot be seen now: {printable(why)}",
            err=True,
        )
    for intent, outcome in settled.known:
        run_id = outcome.run_id
        click.echo(
            f"run {run_id} ({printable(intent.request)}) was cut off: {in_words(outcome)}.\n"
            f"Undo it with 'offsetbook undo {run_id}'; finish it with 'offsetbook apply "
            f"--run {run_id} --approve {intent.fingerprint} --reason TEXT'",
            err=True,
        )


def tell_left_behind(found: Iterable[OrphanedHold]) -> None:
    """Say what became of holds whose process is gone."""
    for left in found:
        click.echo(printable(left.in_words), err=True)
