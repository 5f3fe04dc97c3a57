"""
The file through which a notebook hands its result to the program that runs it.

The runner names the file in the environment and reads it afterwards. In JupyterLab and under plain
papermill there is no such file, and nothing is handed over.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from toolkit.errors import StateFileError
from toolkit.plan import ConclusionStatus
from toolkit.storage.formats.atomic_files import write_whole

FILE_VARIABLE = "OFFSETBOOK_CONCLUSION"
COUNTS = ("findings", "problems", "planned", "changed", "refused")


@dataclass(frozen=True, slots=True)
class Conclusion:
    """
    What a notebook concluded.

    `undo` is the run that undoes it, where something was changed; `cluster` that of a plan. `runs`
    has how many changes each run of the notebook has made by now.
    """

    summary: str = ""
    ending: ConclusionStatus = ConclusionStatus.DONE
    counts: dict[str, int] = field(default_factory=dict)
    undo: str | None = None
    cluster: str = ""
    runs: dict[str, int] = field(default_factory=dict)


def write_conclusion(conclusion: Conclusion) -> None:
    """
    Give the runner, if there is one, a conclusion, which replaces an earlier one.

    What an earlier change of the notebook did stays part of it.
    """
    if path := os.environ.get(FILE_VARIABLE):
        conclusion = _with_earlier(read_conclusion(Path(path)), conclusion)
        try:
            write_whole(Path(path), json.dumps(asdict(conclusion)))
        except StateFileError as exc:
            raise StateFileError(
                f"the result ({conclusion.summary}) could not be written: {exc.problem}",
                hint="free disk space; the audit log shows what was changed",
            ) from exc


def _with_earlier(earlier: Conclusion, now: Conclusion) -> Conclusion:
    runs = {**earlier.runs, **({now.undo: now.counts.get("changed", 0)} if now.undo else {})}
    if not runs:
        return now
    is_partly = earlier.ending is ConclusionStatus.PARTLY_APPLIED and earlier.undo != now.undo
    is_partly |= now.ending is ConclusionStatus.BLOCKED
    return replace(
        now,
        ending=ConclusionStatus.PARTLY_APPLIED if is_partly else now.ending,
        counts={**now.counts, "changed": sum(runs.values())},
        undo=now.undo or earlier.undo,
        runs=runs,
    )


def run_folder() -> Path | None:
    """Return the folder in which this run leaves its report; None without a runner."""
    path = os.environ.get(FILE_VARIABLE)
    return Path(path).parent if path else None


def read_conclusion(path: Path) -> Conclusion:
    """Return what the notebook concluded; an empty conclusion if it did not come that far."""
    if not path.exists():
        return Conclusion()
    content = json.loads(path.read_text(encoding="utf-8"))
    content["ending"] = ConclusionStatus(content["ending"])
    return Conclusion(**content)
