"""What is asked where somebody sits at a terminal."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

Typed = Callable[..., "CompletedProcess[str]"]


@pytest.fixture
def typed(shell: Any) -> Typed:
    """Return a function that runs the command at a terminal, and types answers."""
    program = shutil.which("offsetbook", path=str(Path(sys.executable).parent))

    def run(*arguments: str, answers: tuple[str, ...]) -> CompletedProcess[str]:
        command = [program, "consumer-groups", "--bootstrap-server", shell.apps.address, *arguments]
        ours, theirs = pty.openpty()
        try:
            os.write(ours, "".join(f"{answer}\n" for answer in answers).encode())
            done = subprocess.run(
                command,
                stdin=theirs,
                stdout=subprocess.PIPE,
                stderr=theirs,
                env={**os.environ, "OFFSETBOOK_STATE": str(shell.operator.state)},
                check=False,
            )
            os.close(theirs)
            return CompletedProcess(command, done.returncode, done.stdout.decode(), _said(ours))
        finally:
            os.close(ours)

    return run


def _said(terminal: int) -> str:
    said = b""
    with suppress(OSError):  # the end of what a terminal has to say
        while more := os.read(terminal, 4096):
            said += more
    return said.decode()


def test_a_deletion_is_typed(shell: Any, typed: Typed) -> None:
    """Without --execute the group's name is typed, and why; a slip deletes nothing."""
    group, _ = shell.idle(5)
    flags = ("--delete", "--group", group, "--override", "keeps-committing")
    slip = typed(*flags, answers=("another",))
    kept = shell.held(group)
    done = typed(*flags, answers=(group, "no longer used"))
    (_, outcome) = shell.operator.log

    assert (3, True) == (slip.returncode, f"you typed 'another', expected '{group}'" in slip.stderr)
    assert f"These consumer groups would be deleted: '{group}'\n" == slip.stdout
    assert 1 == len(kept)
    assert (0, None) == (done.returncode, shell.held(group)), done.stderr
    assert "no longer used" == outcome.run.reason


def test_a_reason_is_asked_for(shell: Any, typed: Typed) -> None:
    """--execute without --reason asks why, and nothing else."""
    group, _ = shell.idle(5)
    flags = ("--reset-offsets", "--group", group, "--all-topics", "--to-earliest", "--execute")
    done = typed(*flags, "--override", "keeps-committing", answers=("a replay",))
    (_, outcome) = shell.operator.log

    assert (0, {0}) == (done.returncode, set(shell.held(group).values())), done.stderr
    assert "a replay" == outcome.run.reason
