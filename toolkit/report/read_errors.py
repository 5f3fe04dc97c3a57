"""What a snapshot could not read."""

from __future__ import annotations

from toolkit.model import Snapshot
from toolkit.planning.frames.snapshot_frames import problems_frame
from toolkit.report.tables import show_problems


def show_read_errors(facts: Snapshot) -> None:
    """Show what a snapshot could not read, see `show_problems`."""
    show_problems(problems_frame(facts.problems, cluster=facts.cluster))
