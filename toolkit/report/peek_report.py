"""The records around a group's committed offsets."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.errors import BrokerRefused, UsageError
from toolkit.model import TopicPartition
from toolkit.model.names import shown_name
from toolkit.model.plurals import counted
from toolkit.model.records import RecordsAround
from toolkit.planning.diagnosis.record_text import MOST_CHARACTERS, records_frame
from toolkit.planning.frames.snapshot_frames import problems_frame
from toolkit.planning.selection.peek_places import PeekPlaces, PeekRequest
from toolkit.report.frame_text import frame_text
from toolkit.report.record_cards import show_record_cards
from toolkit.report.run_command import shell_word
from toolkit.report.safe_names import visible_lines
from toolkit.report.tables import show_problems
from toolkit.storage.saved_records import save_records

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class PeekReport:
    """
    Records around the committed offsets that were chosen, with read errors in `around.problems`.

    `read_whole` reads the records again, uncut.
    """

    cluster: str
    group: str
    chosen: PeekPlaces
    around: RecordsAround
    request: PeekRequest
    read_whole: Callable[[], RecordsAround]

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The committed offsets around which records were read."""
        return self.chosen.positions

    @property
    def left_out(self) -> int:
        """How many partitions are read by default and were too many."""
        return self.chosen.left_out

    def save(self, path: Path) -> str:
        """
        Save these records byte for byte to a new file (see `saved_records`) and say what was saved.

        They are read again, whole. Raises UsageError where the file exists or there is no record,
        StateFileError, BrokerRefused where a partition could not be read, and ClusterUnreachable.
        """
        whole = self.read_whole()
        if whole.problems:
            problem = whole.problems[0]
            where = f"{problem.topic} partition {problem.partition}"
            raise BrokerRefused(f"nothing was saved: {problem.what} of {where}: {problem.why}")
        if not whole.records:
            raise UsageError("nothing was saved: there is no record around these offsets")
        save_records(path, self.cluster, whole.records)
        return f"{counted(len(whole.records), 'record')} saved to {path}, read back and compared"

    @property
    def file_name(self) -> str:
        return f"records-{re.sub(r'[^A-Za-z0-9.-]+', '_', self.group)[:60]}.jsonl"

    @property
    def save_command(self) -> str:
        topics = [f"--topic {shell_word(f'{p.topic}:{p.partition}')}" for p in self.positions]
        words = [
            f"offsetbook peek --cluster {shell_word(self.cluster)}",
            f"--group {shell_word(shown_name(self.group))}",
            *topics,
            f"--before {self.request.before} --after {self.request.after} --save {self.file_name}",
        ]
        return " ".join(words)

    def frame(self, *, most_characters: int = MOST_CHARACTERS) -> pd.DataFrame:
        """Return cluster, group and the columns of `records_frame`, with texts cut to a length."""
        frame = records_frame(self.around.records, self.positions, most_characters=most_characters)
        frame.insert(0, "group", self.group)
        frame.insert(0, "cluster", self.cluster)
        return frame

    def __repr__(self) -> str:
        shown = self.frame(most_characters=60)[["topic", "partition", "offset", "place", "value"]]
        return visible_lines(frame_text(shown, max_rows=20))

    def _ipython_display_(self) -> None:
        show_record_cards(self.around.records, self.positions, left_out=self.left_out)
        if self.around.problems:
            show_problems(problems_frame(self.around.problems, cluster=self.cluster))
