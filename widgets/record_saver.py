"""Save the records that are shown to a file, before the step that skips them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ipywidgets

from toolkit.report.run_command import command_block
from widgets.live_or_static import LiveOrStatic, NoticeTone, notice, sheet


class RecordSaver(LiveOrStatic):
    """A file name and a button; `save` writes the records and returns a description."""

    def __init__(self, save: Callable[[Path], str], *, name: str, command: str) -> None:
        super().__init__()
        self.save, self.command = save, command
        self.file = ipywidgets.Text(value=name, description="File", layout={"width": "32em"})
        self.done = ipywidgets.HTML()

    def live_form(self) -> tuple[ipywidgets.Widget, ...]:
        button = ipywidgets.Button(description="Save these records", icon="save")
        button.on_click(self.guarded(self.write))
        return ipywidgets.HBox([self.file, button]), self.done

    def write(self) -> None:
        self.show_error(None)
        self.done.value = ""
        self.done.value = notice(self.save(Path(self.file.value)), tone=NoticeTone.GOOD)

    def static_html(self) -> str:
        prompt = "Save these records byte for byte, in a terminal:"
        return f"{sheet()}<p>{prompt}</p>{command_block(self.command)}"

    def text_form(self) -> str:
        return self.command
