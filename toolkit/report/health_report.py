"""How every group of a cluster is, in one word."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolkit.model import Snapshot
from toolkit.model.rows import Rows
from toolkit.planning.diagnosis.group_health import Health
from toolkit.planning.frames.frame_of import frame_of
from toolkit.report.cell_text import report_text
from toolkit.report.notices import show_read_errors
from toolkit.report.tables import show_table

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class HealthReport:
    """Two samples of a cluster; `facts` is the second one, with the read errors of both."""

    facts: Snapshot
    rows: Rows  # see `group_health`

    @property
    def counts(self) -> Counter[str]:
        place = list(self.rows.columns).index("health")
        return Counter(str(row[place]) for row in self.rows.rows)

    @property
    def summary(self) -> str:
        """How many groups have each word, worst first, in one sentence."""
        counts = self.counts
        found = [f"{counts[word]:,} {word}" for word in Health if counts[word]]
        return f"cluster {self.facts.cluster}: {', '.join(found) or 'no groups'}"

    @property
    def frame(self) -> pd.DataFrame:
        return frame_of(self.rows)

    def __repr__(self) -> str:
        return report_text(self.summary, self.frame)

    def _ipython_display_(self) -> None:
        show_read_errors(self.facts)
        show_table(self.frame, caption_text=self.summary, empty_text="No groups.")
