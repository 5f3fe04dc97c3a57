"""The last steps of a notebook that changes something: apply, tell, record, conclude."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from toolkit.errors import BrokerRefused
from toolkit.journeys.change.decision import Decision
from toolkit.model import Cluster
from toolkit.operate.apply import apply_plan, in_words
from toolkit.operate.move import move
from toolkit.operate.steps import OnStep
from toolkit.plan import Ending, Outcome, Plan, Status
from toolkit.planning.changes.move import PlannedMove
from toolkit.planning.frames.outcome_frame import outcome_frame, outcome_reasons
from toolkit.planning.frames.review_frame import summary
from toolkit.planning.guardrails.registry import FINAL
from toolkit.report.conclusion import show_conclusion
from toolkit.report.notices import Tone, show_notice
from toolkit.report.tables import show_table
from toolkit.runner.notebooks import find_notebook
from toolkit.runner.parameters import read_parameters
from toolkit.storage.conclusion_file import Conclusion, hand_over, run_folder
from toolkit.storage.plan_files import write_plan

HOW_TO_APPROVE = (
    "To apply exactly this, run what stands below with a reason of your own; or set "
    "dry_run = False, approve and reason among the parameters and run all cells again."
)
NOTHING = pd.DataFrame()


def run_command(notebook: str, values: Mapping[str, object], **changed: object) -> str:
    """
    Return the command that runs a notebook headlessly with some values, as for a POSIX shell.

    `values` may hold more than the notebook's parameters, `changed` goes before it. What is as the
    notebook has it already is left out, but for the cluster.
    """
    given = {**values, **changed}
    words = ["offsetbook", "run", notebook]
    for parameter in read_parameters(find_notebook(notebook)):
        value = given.get(parameter.name, parameter.default)
        if value != parameter.default or (parameter.name == "cluster" and value):
            words += [f"-p {shlex.quote(f'{parameter.name}={text}')}" for text in _texts(value)]
    return " ".join(words)


def _texts(value: object) -> list[str]:
    """Return the texts that `offsetbook run` reads as a value."""
    if isinstance(value, list):
        # One text would be split at commas, and a name may hold some.
        return [*value, ""] if len(value) == 1 and "," in value[0] else value or [""]
    if isinstance(value, bool):
        return [str(value).lower()]
    return ["" if value is None else str(value)]


def leave_plan(plan: Plan) -> str:
    """Write a plan into the folder of this run and return the file's path; "" without a runner."""
    folder = run_folder()
    if folder is None:
        return ""
    write_plan(folder / "plan.json", plan)
    return str(folder / "plan.json")


def show_decision(decision: Decision, command: str = "") -> None:
    """Say loudly whether the plan will be applied, and with what command it would be."""
    fingerprint = f"Fingerprint: {decision.plan.fingerprint}"
    title = _sentence(decision.said)
    if decision.wants_approval:
        tone = Tone.WARN if decision.ending is Ending.BLOCKED else Tone.NOTE
        show_notice(title, [fingerprint, HOW_TO_APPROVE], command=command, tone=tone)
    elif decision.approval:
        show_notice(title, [fingerprint, f"Why: {decision.approval.reason}"], tone=Tone.GOOD)
    elif decision.blocked_by:
        show_notice(title, [_way_out(decision.blocked_by)], tone=Tone.WARN)
    else:
        show_notice(title, tone=Tone.GOOD)


def _way_out(rules: Sequence[str]) -> str:
    """Say what can be done about a plan that rules block."""
    if final := [rule for rule in rules if rule in FINAL]:
        return f"What holds always and cannot be passed over: {', '.join(final)}."
    return (
        f"If that is meant, set overrides = {list(rules)}; the plan is then still to be approved."
    )


def apply_decided(
    decision: Decision,
    cluster: Cluster,
    *,
    state: Path,
    live: PlannedMove | None = None,
    on_step: OnStep = lambda _: None,
) -> Outcome | None:
    """
    Apply a plan where that was decided and return what became of it; None where it was not.

    `live` is the move of a live group that was decided on; `on_step` is told what became of each
    step. Raises what `apply_plan` raises. The
    runner is told at once, so that a run that is stopped right afterwards names its undo record all
    the same.
    """
    if decision.approval is None:
        return None
    if live:
        outcome = move(live, cluster, decision.approval, state=state, on_step=on_step)
    else:
        outcome = apply_plan(
            decision.plan, cluster, decision.approval, state=state, on_step=on_step
        )
    hand_over(_conclusion(decision, outcome))
    return outcome


def show_outcome(outcome: Outcome | None) -> None:
    """Show what became of every change, as it was read back; what was not done comes first."""
    if outcome is None:
        show_table(NOTHING, empty_text="Nothing was applied, so there is nothing to verify.")
        return
    tone = Tone.GOOD if outcome.is_done else Tone.BAD
    whys = outcome_reasons(outcome)
    show_notice(f"{in_words(outcome)}, read back from the cluster", whys, tone=tone)
    frame = outcome_frame(outcome)
    not_done_first = frame.assign(done=frame["status"] == "done").sort_values("done", kind="stable")
    show_table(not_done_first.drop(columns="done"), caption_text="What became of each change")


def show_undo(outcome: Outcome | None, values: Mapping[str, object]) -> None:
    """Show how a run is undone; `values` are cluster, fleet_file and state as they were given."""
    if outcome is None or not outcome.changed_anything:
        show_table(NOTHING, empty_text="Nothing was changed, so there is nothing to undo.")
        return
    command = run_command("70_undo", values, run=outcome.run_id)
    line = "This shows what an undo would do, and with what approval it does it:"
    show_notice(f"Run {outcome.run_id} can be undone", [line], command=command)


def conclude_change(decision: Decision, outcome: Outcome | None = None) -> None:
    """
    Say in one sentence what was changed, and hand it to the runner.

    The run ends as done, blocked or partly applied. Raises BrokerRefused, so that it fails, where a
    plan was to be applied and nothing was changed.
    """
    show_conclusion(_conclusion(decision, outcome))
    if outcome and not outcome.is_done and not outcome.changed_anything:
        raise BrokerRefused(f"nothing was changed: {in_words(outcome)}", hint="make a new plan")


def _conclusion(decision: Decision, outcome: Outcome | None) -> Conclusion:
    plan = decision.plan
    asked = f"{plan.cluster}: {plan.request}: {summary(plan)}"
    # A group without commits is one change too.
    planned = sum(len(step.changes) or 1 for step in plan.steps)
    counts = {"findings": len(decision.findings), "planned": planned}
    if outcome is None:
        said = f"{_sentence(decision.said)}. {asked}."
        if decision.wants_approval:
            said += f" Fingerprint: {plan.fingerprint}"
        return Conclusion(said, decision.ending, counts)
    became = Counter(r.status for step in outcome.steps for r in step.results or (step,))
    done = became.pop(Status.DONE, 0)
    counts |= {"changed": done, "refused": sum(became.values())}
    ending = Ending.DONE if outcome.is_done else Ending.PARTLY_APPLIED
    undo = outcome.run_id if outcome.changed_anything else None
    said = f"{asked}. {in_words(outcome)}, read back from the cluster; run {outcome.run_id}"
    return Conclusion(said, ending, counts, undo)


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]
