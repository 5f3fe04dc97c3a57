"""Say what is to be known before a change: interrupted runs, and holds without a keeper."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from toolkit.cli.output import printable

if TYPE_CHECKING:
    from toolkit.journeys.change.run_notices import RunNotice


def print_notices(notices: Iterable[RunNotice]) -> None:
    """Say what became of interrupted runs and orphaned holds, and how to go on."""
    for notice in notices:
        way_on = f".\nTo undo it: 'offsetbook undo {notice.run_id}'" if notice.run_id else ""
        if notice.fingerprint:
            way_on += (
                f"; finish it with 'offsetbook apply --run {notice.run_id} "
                f"--approve {notice.fingerprint} --reason TEXT'"
            )
        click.echo(f"{printable(notice.words)}{way_on}", err=True)
