"""
What to do next, as a list: why, which notebook with what filled in, and the command.

After a change that is: resume, undo, and look at the groups.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from toolkit.model import Snapshot, TopicPartition
from toolkit.model.names import ExactName, shown_name
from toolkit.plan import Intent, Plan
from toolkit.planning.selection.partition_selection import scopes_of
from toolkit.report.display import display_output
from toolkit.report.run_command import NotebookCall, command_block, run_command, typed_names
from toolkit.report.safe_names import in_html, lines_in_html, visible

# Moved while they are paused; a paused group is not given back by that.
WHILE_PAUSED = frozenset({Intent.RESET, Intent.UNDO, Intent.RESTORE})


@dataclass(frozen=True, slots=True)
class ShownStep:
    """
    One step; `parameters` are those of the notebook that are to be filled in.

    With a `button` the step is this button alone where it can be clicked. Exact names among the
    parameters become texts that choose exactly these groups.
    """

    title: str
    why: str
    notebook: str = ""
    parameters: Mapping[str, object] = field(default_factory=dict)
    command: str = ""
    button: str = ""

    def __post_init__(self) -> None:
        """Write names so that a notebook reads them as they are."""
        given = self.parameters.items()
        texts = {name: typed_names(v) if isinstance(v, list) else v for name, v in given}
        object.__setattr__(self, "parameters", texts)  # it is frozen


# Shows steps and returns their buttons, or None in a headless run.
OpenSteps = Callable[[Sequence[ShownStep]], object]


def shown_step(
    title: str, why: str, call: NotebookCall, where: Mapping[str, object], *, button: str = ""
) -> ShownStep:
    """
    Return a step that a notebook takes; `where` has cluster, fleet_file and state.

    Of these it gets those that have a value and, for several clusters, not the one.
    """
    is_several = "clusters" in call.parameters
    own = {n: v for n, v in where.items() if v and not (is_several and n == "cluster")}
    command = run_command(call, where)
    return ShownStep(title, why, call.notebook, {**own, **call.parameters}, command, button)


def show_steps(steps: Sequence[ShownStep]) -> None:
    display_output({"text/html": steps_html(steps), "text/plain": steps_text(steps)})


def steps_html(steps: Sequence[ShownStep]) -> str:
    items = "".join(f"<li>{step_html(step)}{_command(step)}</li>" for step in steps)
    return f'<ol class="ob-steps">{items}</ol>'


def steps_text(steps: Sequence[ShownStep]) -> str:
    return "\n\n".join(_text(number, step) for number, step in enumerate(steps, start=1))


def step_html(step: ShownStep, *, number: int | None = None) -> str:
    """Return what a step is, why, and which parameters of which notebook are filled in."""
    title = in_html(step.title if number is None else f"{number}. {step.title}")
    head = f'<p class="ob-step-title"><b>{title}</b></p><p>{in_html(step.why)}</p>'
    if not step.notebook:
        return head
    filled = lines_in_html("\n".join(_assignments(step.parameters)))
    name = f"<code>{in_html(step.notebook)}</code>"
    return f"{head}<p>Notebook {name} with these parameters:</p><pre><code>{filled}</code></pre>"


def _command(step: ShownStep) -> str:
    return f"<p>Or run in a terminal:</p>{command_block(step.command)}" if step.notebook else ""


def _text(number: int, step: ShownStep) -> str:
    lines = [f"{number}. {visible(step.title)}", visible(step.why)]
    if step.notebook:
        lines += [f"{step.notebook} with:", *map(visible, _assignments(step.parameters))]
        lines += [visible(step.command)]
    return "\n   ".join(lines)


def _assignments(values: Mapping[str, object]) -> list[str]:
    return [f"{name} = {value!r}" for name, value in values.items()]


def undo_call(run_id: str) -> NotebookCall:
    return NotebookCall("70_undo", {"run": run_id})


def resume_call(group: str) -> NotebookCall:
    return NotebookCall("40_pause_partitions", {"action": "resume", "groups": [ExactName(group)]})


def follow_ups(
    plan: Plan,
    facts: Snapshot,
    where: Mapping[str, object],
    *,
    undo: str,
    held: Collection[TopicPartition],
) -> Iterator[ShownStep]:
    """
    Yield the steps after a plan was applied: resume, undo, and the next one.

    `facts` are those that it was made from, `undo` is the run to undo, "" if there is nothing to
    undo, and `held` are the partitions that it left paused.
    """
    paused = {g.group_id for g in facts.groups if g.paused} & {*plan.group_ids}
    if held or (paused and plan.intent in WHILE_PAUSED):
        for group in plan.group_ids if held else sorted(paused):
            yield shown_step(
                f"Resume the paused partitions of {shown_name(group)}",
                "Its members continue from the committed offsets.",
                resume_call(group),
                where,
                button="Resume",
            )
    if undo:
        is_live = any(g.is_live for g in facts.groups if g.group_id in plan.group_ids)
        why = "It is an ordinary plan."
        if is_live and plan.intent is Intent.DELETE_OFFSETS:
            why = "Only while no member subscribes to the topics."
        yield shown_step(f"Undo run {undo}", why, undo_call(undo), where, button="Undo")
    yield _next(plan, where, held=held)


def _next(
    plan: Plan, where: Mapping[str, object], *, held: Collection[TopicPartition]
) -> ShownStep:
    groups = list(map(ExactName, plan.group_ids))
    if held:
        topics = [str(scope) for scope in scopes_of(held)]
        # Without a value the notebook asks for one; `to-current` would have nothing to do.
        parameters = {"groups": groups, "topics": topics, "mode": "to-offset"}
        call = NotebookCall("50_reset_offsets", parameters)
        why = "Set value to the offset, or choose another mode; the group may be live."
        return shown_step("Next: move offsets", why, call, where, button="Next: move their offsets")
    if len(groups) != 1 or plan.intent is Intent.DELETE_GROUPS:
        why = "It has every change, and what was read back."
        call = NotebookCall("80_audit_review", {"groups": groups})
        return shown_step("Next: audit log", why, call, where, button="Next: see the audit log")
    call = NotebookCall("90_troubleshoot_group", {"groups": groups})
    why = "It shows whether its partitions make progress. It only reads."
    return shown_step("Next: check the group", why, call, where, button="Next: check the group")
