"""The button that saves records says what was saved, or why nothing was."""

from __future__ import annotations

from pathlib import Path

from toolkit.errors import UsageError
from toolkit.report.command_block import command_block
from widgets.record_saver import RecordSaver


def test_a_click_saves_to_the_file_that_is_named() -> None:
    """What was saved is said below; an error takes its place, and goes with the next success."""
    saved: list[Path] = []

    def save(path: Path) -> str:
        if path in saved:
            raise UsageError(f"{path} exists")
        saved.append(path)
        return f"saved to {path}"

    saver = RecordSaver(save, name="first.jsonl", command="offsetbook peek")
    (row, done) = saver.live_form()
    for name, why in (("first.jsonl", ""), ("first.jsonl", "exists"), ("second.jsonl", "")):
        saver.file.value = name
        row.children[1].click()
        assert why in saver.error_box.value
        assert bool(why) is bool(saver.error)
        assert (f"saved to {name}" in done.value) is not bool(why)
    assert [Path("first.jsonl"), Path("second.jsonl")] == saved
    assert command_block("offsetbook peek") in saver.static_html()
