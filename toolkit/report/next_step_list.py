"""What to do next, as a list: why, which notebook with what filled in, and the command."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from toolkit.report.command_block import command_block
from toolkit.report.display import display_output
from toolkit.report.run_command import NotebookCall, run_command, typed_names
from toolkit.report.safe_names import in_html, visible


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


# Shows steps and returns the buttons that take them, or None where nobody can click.
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
    """Show steps in their order, everything in them as text."""
    display_output({"text/html": steps_html(steps), "text/plain": steps_text(steps)})


def steps_html(steps: Sequence[ShownStep]) -> str:
    """Return steps as a list, each with its parameters and its command."""
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
    filled = _lines_in_html("\n".join(_assignments(step.parameters)))
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


def _lines_in_html(text: str) -> str:
    return "\n".join(in_html(line) for line in text.split("\n"))
