"""The line that shows that a command is alive."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from applications import eventually

from toolkit.cli.progress_line import ProgressLine


def test_elapsed_time_goes_on_while_nothing_is_reported(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The time is shown also while stderr itself goes to a file, as it does while Spark starts."""
    line = ProgressLine("fleet", visible=True)
    line.show("starting Spark")
    ours, log = os.dup(2), os.open(tmp_path / "spark.log", os.O_CREAT | os.O_WRONLY)
    os.dup2(log, 2)
    seen = ""

    def has_time() -> bool:
        nonlocal seen
        seen += capfd.readouterr().err
        # A busy machine may show no time before the second second.
        return re.search(r"fleet: starting Spark, [1-9]\d* (s|min)", seen) is not None

    try:
        eventually(has_time)
    finally:
        os.dup2(ours, 2)
        os.close(ours)
        os.close(log)
        line.clear()

    assert "" == (tmp_path / "spark.log").read_text()
    assert capfd.readouterr().err.endswith("\r\033[K")


def test_nothing_is_shown_without_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    """Where nobody looks, not a byte is written."""
    line = ProgressLine("fleet", visible=False)
    line.show("starting Spark")
    line.clear()

    assert "" == capfd.readouterr().err
