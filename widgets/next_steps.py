"""What to do next; a click opens the notebook that does it, with its parameters filled in."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import uuid4

import ipywidgets

from toolkit.report.next_step_list import ShownStep, step_html, steps_html, steps_text
from widgets.fragments import in_html, sheet
from widgets.live_or_static import LiveOrStatic

OpenCopy = Callable[[ShownStep], Path]
# JupyterLab makes a link its own some moments after it is there. A page that is loaded again later
# opens nothing.
CLICK = """<script>(async () => {{
  for (let turn = 0; turn < 50 && Math.abs(Date.now() - {now}) < 60000; turn++) {{
    const link = document.getElementById("{name}");
    if (link?.href.includes("/files/")) return link.click();
    await new Promise((go) => setTimeout(go, 100));
  }}
}})()</script>"""


class NextSteps(LiveOrStatic):
    """Steps, each with the notebook that takes it; `open_copy` writes one and returns its path."""

    def __init__(self, steps: Sequence[ShownStep], open_copy: OpenCopy) -> None:
        """Take the steps, the first one first."""
        super().__init__()
        self.steps, self.open_copy = steps, open_copy
        self.opened = ipywidgets.Output()

    def live_form(self) -> tuple[ipywidgets.Widget, ...]:
        """Return each step above its button; in one row, steps that are buttons alone."""
        row = ipywidgets.HBox([self._button(step) for step in self.steps if step.button])
        row.add_class("ow-bar")
        parts: list[ipywidgets.Widget] = [row] if row.children else []
        for number, step in enumerate((s for s in self.steps if not s.button), start=1):
            parts.append(ipywidgets.HTML(step_html(step, number=number)))
            if step.notebook:
                parts.append(self._button(step))
        return (*parts, self.opened)

    def _button(self, step: ShownStep) -> ipywidgets.Button:
        button = ipywidgets.Button(
            description=step.button or f"Open {step.notebook} with these parameters",
            tooltip=f"{step.title}: opens {step.notebook}" if step.button else "",
            layout={"align_self": "flex-start", "width": "auto"},
        )
        button.on_click(self.guarded(lambda: self.open(step)))
        return button

    def open(self, step: ShownStep) -> None:
        """Write a copy with the parameters of a step, and have JupyterLab open it."""
        self.show_error(None)
        path, name = in_html(self.open_copy(step).name), f"ow-{uuid4().hex}"
        link = f'<p>Created <a id="{name}" href="{path}">{path}</a> and opened it.</p>'
        html = link + CLICK.format(name=name, now=int(time.time() * 1000))
        data = {"text/html": html, "text/plain": path}
        self.opened.outputs = ({"output_type": "display_data", "data": data, "metadata": {}},)

    def static_html(self) -> str:
        """Return the steps with their commands."""
        return sheet() + steps_html(self.steps)

    def text_form(self) -> str:
        """Return the same as text."""
        return steps_text(self.steps)
