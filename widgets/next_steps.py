"""What to do next; a click opens the notebook that does it, with its parameters filled in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import ipywidgets

from toolkit.report.display import page_script
from toolkit.report.next_step_list import ShownStep, step_html, steps_html, steps_text
from toolkit.report.safe_names import visible
from widgets.live_or_static import LiveOrStatic, in_html, sheet

OpenCopy = Callable[[ShownStep], Path]
CLICK = 'if (here?.href.includes("/files/")) return here.click();'


class NextSteps(LiveOrStatic):
    """Steps, each with the notebook that takes it; `open_copy` writes one and returns its path."""

    def __init__(self, steps: Sequence[ShownStep], open_copy: OpenCopy) -> None:
        super().__init__()
        self.steps, self.open_copy = steps, open_copy
        self.opened = ipywidgets.Output()

    def live_form(self) -> tuple[ipywidgets.Widget, ...]:
        row = ipywidgets.HBox([self._button(step) for step in self.steps if step.button])
        row.add_class("ow-bar")
        parts: list[ipywidgets.Widget] = [row] if row.children else []
        for number, step in enumerate((s for s in self.steps if not s.button), start=1):
            parts.append(ipywidgets.HTML(step_html(step, number=number)))
            if choice := _group_choice(step):
                prompt = (
                    "<p>Select some of these groups. Without a selection it is all of them.</p>"
                )
                parts += [ipywidgets.HTML(prompt), choice]
            if step.notebook:
                parts.append(self._button(step, choice))
        return (*parts, self.opened)

    def _button(
        self, step: ShownStep, choice: ipywidgets.SelectMultiple | None = None
    ) -> ipywidgets.Button:
        button = ipywidgets.Button(
            description=step.button or f"Open {step.notebook} with these parameters",
            tooltip=f"{step.title}: opens {step.notebook}" if step.button else "",
            layout={"align_self": "flex-start", "width": "auto"},
        )

        def click() -> None:
            given = {"groups": [*choice.value]} if choice and choice.value else {}
            self.open(replace(step, parameters={**step.parameters, **given}))

        button.on_click(self.guarded(click))
        return button

    def open(self, step: ShownStep) -> None:
        """Write a copy with the parameters of a step, and have JupyterLab open it."""
        self.show_error(None)
        path, name = in_html(self.open_copy(step).name), f"ow-{uuid4().hex}"
        link = f'<p>Created <a id="{name}" href="{path}">{path}</a> and opened it.</p>'
        data = {"text/html": link + page_script(name, CLICK), "text/plain": path}
        self.opened.outputs = ({"output_type": "display_data", "data": data, "metadata": {}},)

    def static_html(self) -> str:
        return sheet() + steps_html(self.steps)

    def text_form(self) -> str:
        return steps_text(self.steps)


def _group_choice(step: ShownStep) -> ipywidgets.SelectMultiple | None:
    """Return the groups of a step to choose from; None where there are not several."""
    groups = step.parameters.get("groups")
    if step.button or not isinstance(groups, list) or len(groups) < 2:
        return None
    options = [(visible(group), group) for group in groups]
    choice = ipywidgets.SelectMultiple(options=options, rows=min(len(groups), 8))
    choice.add_class("ow-list")
    return choice
