"""The last cell of a notebook: one sentence for the report, handed to the program that runs it."""

from __future__ import annotations

from toolkit.errors import UsageError
from toolkit.plan import MAY_HAVE_CHANGED, ChangeStatus, ConclusionStatus, Outcome, Plan
from toolkit.planning.frames.plan_frames import summary as plan_summary
from toolkit.report.display import display_output
from toolkit.report.safe_names import in_html, sentence, visible
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


def unapplied_conclusion(
    plan: Plan, said: str, *, findings: int, ending: ConclusionStatus, wants_approval: bool
) -> Conclusion:
    """Return why a plan was not applied, which `said` has, and what an approval would need."""
    words = f"{sentence(said)}. {_request(plan)}."
    if wants_approval:
        words += f" Fingerprint: {plan.fingerprint}"
    counts = {"findings": findings, "planned": _planned(plan), "changed": 0}
    return Conclusion(words, ending, counts, cluster=plan.cluster)


def applied_conclusion(
    plan: Plan, outcome: Outcome, *, findings: int, ending: ConclusionStatus
) -> Conclusion:
    """Return what became of the changes of a plan, and the run that undoes it if anything did."""
    became = outcome.counts
    counts = {"findings": findings, "planned": _planned(plan)}
    counts |= {"changed": sum(became[status] for status in MAY_HAVE_CHANGED)}
    counts |= {"refused": became[ChangeStatus.REFUSED]}
    words = f"{_request(plan)}. {outcome.verified_summary}; run {outcome.run_id}"
    if outcome.interrupted:
        words = f"{sentence(outcome.interrupted)}. {words}"
    undo = outcome.run_id if outcome.changed_anything else None
    return Conclusion(words, ending, counts, undo, plan.cluster)


def _request(plan: Plan) -> str:
    return f"{plan.cluster}: {plan.request}: {plan_summary(plan)}"


def _planned(plan: Plan) -> int:
    # A group without commits is one change too.
    return sum(len(step.changes) or 1 for step in plan.steps)


def show_conclusion(conclusion: Conclusion) -> None:
    """Show what a notebook concluded, and hand it to the runner."""
    write_conclusion(conclusion)
    html = f"<p><strong>{in_html(conclusion.summary)}</strong></p>"
    display_output({"text/html": html, "text/plain": visible(conclusion.summary)})
