"""What became of a plan, as HTML."""

from __future__ import annotations

from collections import Counter

from toolkit.model.plurals import counted
from toolkit.plan import ChangeStatus, Outcome
from toolkit.planning.frames.plan_frames import outcome_frame, outcome_reasons
from widgets.fragments import NoticeTone, notice, table

NEXT = "The cells below show verification, audit record and undo."
MOST = 50


def outcome_html(outcome: Outcome) -> str:
    """Return how it ended, in words, and every change that was not done."""
    counts = Counter(r.status for s in outcome.steps for r in s.results or (s,))
    total = sum(counts.values())
    said = f"{counted(total, 'change')} made"
    if not outcome.is_done:
        said = ", ".join(f"{count:,} {status}" for status, count in counts.most_common())
    whys = outcome_reasons(outcome)[:MOST]
    lines = [*whys, f"Run {outcome.run_id}. {NEXT}"]
    if not any(outcome.interrupted in why for why in whys):
        lines.insert(0, outcome.interrupted)
    tone = NoticeTone.GOOD if outcome.is_done else NoticeTone.BAD
    html = notice(f"{said}, read back from the cluster", lines, tone=tone)
    frame = outcome_frame(outcome)
    failed = frame[frame["status"] != str(ChangeStatus.DONE)].head(MOST)
    if failed.empty:
        return html
    return f'{html}<div class="ow-rows">{table(failed, caption="Changes not done")}</div>'
