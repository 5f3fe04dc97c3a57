"""What to do next, as a list: why, which notebook with what filled in, and the command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from toolkit.report.browser_libraries import style
from toolkit.report.display import OutputRole, display_output, is_headless
from toolkit.report.safe_names import in_html, visible


@dataclass(frozen=True, slots=True)
class ShownStep:
    """One step; `values` are the parameters of the notebook that are to be filled in."""

    title: str
    why: str
    notebook: str = ""
    values: Mapping[str, object] = field(default_factory=dict)
    command: str = ""


def show_steps(steps: Sequence[ShownStep]) -> None:
    """
    Show steps in their order, everything in them as text.

    In JupyterLab the notebook's name is a link that opens it; a report stands alone and has none.
    """
    items = "".join(f"<li>{_html(step)}</li>" for step in steps)
    text = "\n\n".join(_text(number, step) for number, step in enumerate(steps, start=1))
    display_output({"text/html": f'<ol class="ob-steps">{items}</ol>', "text/plain": text})
    if not is_headless():
        sheet = f"<style>{style('trouble.css')}</style>"
        display_output({"text/html": sheet, "text/plain": ""}, role=OutputRole.LIVE_ONLY)


def _html(step: ShownStep) -> str:
    said = f'<p class="ob-step-title">{in_html(step.title)}</p><p>{in_html(step.why)}</p>'
    if not step.notebook:
        return said
    name = f"<code>{in_html(step.notebook)}</code>"
    if not is_headless():
        name = f'<a href="{in_html(step.notebook)}.ipynb">{name}</a>'
    filled = "\n".join(_assignments(step.values))
    return (
        f"{said}<p>Open {name} with these parameters:</p>"
        f"<pre><code>{_lines_in_html(filled)}</code></pre>"
        f"<p>Or run in a terminal:</p><pre><code>{in_html(step.command)}</code></pre>"
    )


def _text(number: int, step: ShownStep) -> str:
    lines = [f"{number}. {visible(step.title)}", visible(step.why)]
    if step.notebook:
        lines += [f"{step.notebook} with:", *map(visible, _assignments(step.values))]
        lines += [visible(step.command)]
    return "\n   ".join(lines)


def _assignments(values: Mapping[str, object]) -> list[str]:
    return [f"{name} = {value!r}" for name, value in values.items()]


def _lines_in_html(text: str) -> str:
    return "\n".join(in_html(line) for line in text.split("\n"))
