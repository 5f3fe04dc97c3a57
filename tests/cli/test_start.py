from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from subprocess import CompletedProcess

import pytest

from toolkit.cli import COMMANDS

Command = Callable[..., "CompletedProcess[str]"]

HEAVY = ("pandas", "numpy", "pyarrow", "kafka", "confluent_kafka", "pyspark", "papermill", "rich")
SHOW_MODULES = """
import sys
from toolkit.cli import cli
try:
    cli({arguments!r}, prog_name="offsetbook")
finally:
    print(*sorted({{name.split(".")[0] for name in sys.modules}}), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("--version",), *((name, "--help") for name in ("groups", "lag", "clusters"))],
    ids=" ".join,
)
def test_help_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    """Help answers at once because no client, frame or engine is imported for it."""
    done = subprocess.run(
        [sys.executable, "-c", SHOW_MODULES.format(arguments=list(arguments))],
        capture_output=True,
        text=True,
        check=True,
    )

    assert not set(HEAVY) & set(done.stderr.split())
    assert "click" in done.stderr.split()


def test_help_names_every_command(offsetbook: Command) -> None:
    """The top-level help lists each command with its one line."""
    done = offsetbook("--help")

    assert done.returncode == 0
    shown = " ".join(done.stdout.split())  # a line of help may be folded
    for name, (_, line) in COMMANDS.items():
        assert f" {name} {line}" in shown
