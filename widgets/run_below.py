"""A button that runs the cells below its own."""

from __future__ import annotations

import time
from uuid import uuid4

import ipywidgets

from toolkit.report.display import page_script
from toolkit.report.plan_inputs import last_cell_ended_s

AT_ONCE_S = 0.3  # a click so soon after a cell has ended, or a second one, is not intended
# JupyterLab runs a command of its own for a click on what bears its name; only a notebook that is
# open does.
RUN_BELOW = """
    if (here?.closest(".jp-Cell")) {
      here.focus({ preventScroll: true });
      for (const command of ["notebook:move-cursor-down", "notebook:run-all-below"]) {
        const button = document.createElement("button");
        button.setAttribute("data-commandlinker-command", command);
        here.append(button);
        button.click();
        button.remove();
      }
      return;
    }"""


class RunBelow:
    """
    The button, and where its click goes to the page.

    Outside JupyterLab nothing happens: the text next to the button says what to do.
    """

    def __init__(self) -> None:
        self.button = ipywidgets.Button(
            description="Continue",
            button_style="primary",
            disabled=True,
            tooltip="Runs the cells below",
            layout={"align_self": "flex-start", "width": "auto", "display": "none"},
        )
        self.output = ipywidgets.Output()
        self._pressed_s = 0.0
        self.button.on_click(lambda _: self.press())

    def offer(self, what: str) -> None:
        """Show the selection; "" if there is none yet."""
        self.button.description = f"Continue with {what}" if what else "Continue"
        self.button.disabled = not what
        self.button.layout.display = "" if what else "none"

    def press(self) -> None:
        now, last = time.monotonic(), max(self._pressed_s, last_cell_ended_s())
        if self.button.disabled or now - last < AT_ONCE_S:
            return  # a second click, which perhaps waited for the cells that the first one ran
        self._pressed_s = now
        name = f"ow-{uuid4().hex}"
        html = f'<span id="{name}" tabindex="-1"></span>{page_script(name, RUN_BELOW)}'
        data = {"text/html": html, "text/plain": ""}
        self.output.outputs = ({"output_type": "display_data", "data": data, "metadata": {}},)
