"""
How a notebook hands its result to whoever ran it.

The last cell calls `conclude`. The runner names a file in the environment and reads it afterwards;
in JupyterLab and under plain papermill there is no such file, and the sentence is only shown.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from html import escape
from pathlib import Path

from toolkit.errors import RecordFailed, UsageError
from toolkit.storage.formats.atomic_files import write_whole

FILE_VARIABLE = "OFFSETBOOK_CONCLUSION"
COUNTS = ("findings", "problems", "planned", "changed", "refused")


class Ending(StrEnum):
    """How a notebook that reached its last cell ended."""

    DONE = "done"  # also: there was nothing to do
    BLOCKED = "blocked"  # a guard-rail or a missing approval; nothing was changed
    PARTLY_APPLIED = "partly-applied"
    INCOMPLETE = "incomplete"  # it only looked, and could not see everything


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What a notebook concluded."""

    summary: str = ""
    ending: Ending = Ending.DONE
    counts: dict[str, int] = field(default_factory=dict)
    undo: str | None = None


def conclude(
    summary: str, *, ending: Ending | str | None = None, undo: str | None = None, **counts: int
) -> None:
    """
    Say in one sentence what the notebook found or did, and hand it to the runner.

    Args:
        summary: one sentence for a person, with the numbers that matter.
        ending: "done", "blocked", "partly-applied" or "incomplete"; without one, "done", or
            "incomplete" where there are problems.
        undo: reference of the undo record, when something was changed.
        counts: any of findings, problems, planned, changed, refused, as far as they were counted.

    """
    unknown = sorted(counts.keys() - set(COUNTS))
    if unknown:
        raise UsageError(f"conclude() counts {', '.join(COUNTS)}; not {', '.join(unknown)}")
    ending = ending or (Ending.INCOMPLETE if counts.get("problems") else Ending.DONE)
    # A count is often a numpy integer, which JSON does not know.
    counted = {name: int(counts[name]) for name in COUNTS if name in counts}
    show_conclusion(Conclusion(" ".join(summary.split()), Ending(ending), counted, undo))


def show_conclusion(conclusion: Conclusion) -> None:
    """Show what a notebook concluded, and hand it to the runner."""
    hand_over(conclusion)
    _show(conclusion.summary)


def hand_over(conclusion: Conclusion) -> None:
    """Give the runner, where there is one, a conclusion that stands until the next one."""
    if path := os.environ.get(FILE_VARIABLE):
        try:
            write_whole(Path(path), json.dumps(asdict(conclusion)))
        except RecordFailed as exc:
            raise RecordFailed(
                f"the conclusion ({conclusion.summary}) cannot be written: {exc.problem}",
                hint="free disk space; see the audit log for what was changed",
            ) from exc


def run_folder() -> Path | None:
    """Return the folder in which this run leaves its report; None without a runner."""
    path = os.environ.get(FILE_VARIABLE)
    return Path(path).parent if path else None


def read_conclusion(path: Path) -> Conclusion:
    """What the notebook concluded; an empty conclusion where it did not come that far."""
    if not path.exists():
        return Conclusion()
    content = json.loads(path.read_text(encoding="utf-8"))
    content["ending"] = Ending(content["ending"])
    return Conclusion(**content)


def _show(summary: str) -> None:
    # Slow to import, and only notebooks come here.
    from IPython.display import display  # noqa: PLC0415

    shown = {"text/html": f"<p><strong>{escape(summary)}</strong></p>", "text/plain": summary}
    display(shown, raw=True)  # type: ignore[no-untyped-call]  # IPython leaves display() untyped
