"""What the review of a plan says, as HTML."""

from __future__ import annotations

from typing import Any, Protocol

from toolkit.model.names import shown_name
from toolkit.plan import Finding, Outcome, Plan
from toolkit.planning.frames.plan_summary import summary
from toolkit.report.safe_names import sentence
from widgets.background import FAILED, RUNNING, BackgroundRun
from widgets.filter_table import FilterTable
from widgets.fragments import in_html, sheet

SHOWN_FINDINGS = 12
AT_WORK = {RUNNING: ("note", "applying"), FAILED: ("block", "not applied")}


class ReviewedPlan(Protocol):
    """A plan that is reviewed, and how it stands."""

    plan: Plan
    findings: tuple[Finding, ...]
    rows: FilterTable
    background: BackgroundRun
    apply: Any  # None: the parameters have decided
    outdated: str

    @property
    def blocked_by(self) -> tuple[Finding, ...]:
        """What blocks it now."""

    @property
    def outcome(self) -> Outcome | None:
        """What became of it."""

    @property
    def expected_confirmation(self) -> str:
        """What has to be typed."""


def head_html(review: ReviewedPlan) -> str:
    """Return what the plan is for, where, how much it changes, and how it stands."""
    tone, word = _status_badge(review)
    return (
        f'<div class="ow-head"><span class="ow-title">{in_html(sentence(review.plan.request))}'
        f'</span><span class="ow-badge ow-{tone}">{word}</span></div>{_summary_html(review)}'
    )


def _summary_html(review: ReviewedPlan) -> str:
    """Return how much the plan changes, where, and its fingerprint."""
    plan = review.plan
    return (
        f"<p>{in_html(sentence(summary(plan)))}, on cluster <b>{in_html(plan.cluster)}</b>. "
        f'<span class="ow-soft">Fingerprint {plan.fingerprint}</span></p>'
    )


def findings_html(review: ReviewedPlan) -> str:
    """Return the findings, those that block first."""
    blocking = set(review.blocked_by)
    ordered = sorted(review.findings, key=lambda f: (f not in blocking, not f.blocks))
    if not ordered:
        return '<p class="ow-soft">No findings.</p>'
    one = len(review.plan.group_ids) == 1
    shown = ordered[:SHOWN_FINDINGS]
    items = [_finding(f, is_blocking=f in blocking, tells_group=not one) for f in shown]
    more = len(ordered) - len(items)
    rest = f'<li class="ow-note">{more:,} more: see the Findings table above</li>' if more else ""
    return f'<ul class="ow-findings">{"".join(items)}{rest}</ul>'


def confirmation_html(review: ReviewedPlan) -> str:
    """Return what has to be typed."""
    groups = review.plan.group_ids
    if len(groups) == 1:
        what = "type the group id"
    else:
        what = f"type the number of groups to change ({len(groups):,})"
    shown = f' <span class="ow-key">{in_html(review.expected_confirmation)}</span>'
    return f"<p><b>To approve</b>, enter a reason and {what}:{shown}</p>"


def static_review(review: ReviewedPlan) -> str:
    """Return the whole review, folded away."""
    tone, word = _status_badge(review)
    title = f"Plan review: {in_html(review.plan.request)}"
    rows = review.rows.static_html() if len(review.rows.frame) else ""
    return (
        f'{sheet()}<details class="ow-static"><summary>{title} '
        f'<span class="ow-badge ow-{tone}">{word}</span></summary>'
        f"{_summary_html(review)}{findings_html(review)}{rows}</details>"
    )


def _status_badge(review: ReviewedPlan) -> tuple[str, str]:
    """Return how the plan stands: a tone and a few words."""
    if review.outcome is not None:
        return ("good", "applied") if review.outcome.is_done else ("block", "partly applied")
    if review.background.state in AT_WORK:
        return AT_WORK[review.background.state]
    if review.outdated:
        return "block", "out of date"
    if review.blocked_by:
        return "block", "blocked"
    if not review.plan.steps:
        return "good", "no changes"
    by_hand = review.apply is not None
    return ("passed", "awaiting approval") if by_hand else ("good", "approved by parameters")


def _finding(finding: Finding, *, is_blocking: bool, tells_group: bool) -> str:
    kind = "block" if is_blocking else "passed" if finding.blocks else "note"
    word = {"block": "Blocked", "passed": "Block overridden", "note": "Note"}[kind]
    group = None if finding.group_id is None else shown_name(finding.group_id)
    about = [group if tells_group else None, finding.topic, finding.partition]
    place = in_html(" ".join(str(part) for part in about if part is not None))
    where = f' <span class="ow-soft">{place}</span>' if place else ""
    return (
        f'<li class="ow-{kind}"><b>{word} · {in_html(finding.rule)}</b>{where}<br>'
        f"{in_html(finding.why)}</li>"
    )
