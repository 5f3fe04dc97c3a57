"""The last cell of a notebook: one sentence for the report, handed to the program that runs it."""

from __future__ import annotations

from toolkit.errors import UsageError
from toolkit.plan import ConclusionStatus
from toolkit.report.display import display_output
from toolkit.report.safe_names import in_html, visible
from toolkit.storage.conclusion_file import COUNTS, Conclusion, write_conclusion


def conclude(
    summary: str,
    *,
    ending: ConclusionStatus | str | None = None,
    undo: str | None = None,
    **counts: int,
) -> None:
    """
    Say in one sentence what the notebook found or did, and hand it to the runner.

    Args:
        summary: one sentence for a person, with the numbers that matter.
        ending: "done", "blocked", "partly-applied" or "incomplete"; without one, "done", or
            "incomplete" if there are problems.
        undo: the run that undoes it, if something was changed.
        counts: any of findings, problems, planned, changed, refused, as far as they were counted.

    """
    unknown = sorted(counts.keys() - set(COUNTS))
    if unknown:
        raise UsageError(f"conclude() counts {', '.join(COUNTS)}; not {', '.join(unknown)}")
    ending = ending or (
        ConclusionStatus.INCOMPLETE if counts.get("problems") else ConclusionStatus.DONE
    )
    # A count is often a numpy integer, which JSON does not know.
    counted = {name: int(counts[name]) for name in COUNTS if name in counts}
    show_conclusion(Conclusion(" ".join(summary.split()), ConclusionStatus(ending), counted, undo))


def show_conclusion(conclusion: Conclusion) -> None:
    """Show what a notebook concluded, and hand it to the runner."""
    write_conclusion(conclusion)
    html = f"<p><strong>{in_html(conclusion.summary)}</strong></p>"
    display_output({"text/html": html, "text/plain": visible(conclusion.summary)})
