"""The beginning of a report: the worst findings, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from toolkit.report.display import OutputRole, capture_outputs, display_output
from toolkit.report.next_step_list import ShownStep, show_steps
from toolkit.report.notices import NoticeTone
from toolkit.report.tables import show_table

if TYPE_CHECKING:
    import pandas as pd

MOST = 5


def show_headline(
    worst: pd.DataFrame, *, title: str, tone: NoticeTone, steps: Sequence[ShownStep] = ()
) -> None:
    """
    Show the first rows of a frame and the next step; a report has them at its top.

    `tone` is how bad it is, and the colour of the report. Without rows and steps only it is set.
    """
    with capture_outputs() as parts:
        if len(worst):
            more = f" ({MOST} of {len(worst):,})" if len(worst) > MOST else ""
            show_table(worst.head(MOST), caption_text=f"{title}{more}")
        if steps:
            show_steps(steps)
    data = {
        "text/html": "\n".join(part["text/html"] for part in parts),
        "text/plain": "\n\n".join(part["text/plain"] for part in parts),
    }
    display_output(data, role=OutputRole.HEADLINE, tone=tone)
