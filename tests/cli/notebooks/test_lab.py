"""offsetbook lab: JupyterLab on copies, on a port of one's own."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from applications import eventually
from click.testing import CliRunner

from toolkit.cli.notebooks.lab import command
from toolkit.errors import UsageError
from toolkit.templates import NOTEBOOKS

pytestmark = pytest.mark.starts("kernels")


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    """It is reported before anything is copied."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        with pytest.raises(UsageError, match=f"port {port} cannot be used"):
            CliRunner().invoke(command, [str(tmp_path), "--port", port], catch_exceptions=False)

    assert [] == list(tmp_path.iterdir())


@pytest.fixture
def port() -> Iterator[str]:
    """Keep a port from all who ask for any port; who names it, as JupyterLab does, can listen."""
    with socket.socket() as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        yield str(kept.getsockname()[1])


def test_jupyterlab_opens_on_copies(tmp_path: Path, port: str) -> None:
    """
    The server has the notebooks of the directory, here the current one, just copied there.

    What follows -- goes to JupyterLab, also where no directory is named before it. A port among it
    is that of the command.
    """
    own = tmp_path / "own"
    own.mkdir()
    places = {f"JUPYTER_{name}_DIR": str(tmp_path / name) for name in ("CONFIG", "DATA", "RUNTIME")}
    environment = os.environ | places | {"JUPYTER_TOKEN": "t"}
    program = "from toolkit.cli import main; main()"
    words = ["lab", "--no-browser", "--", "--allow-root", "--port", port]
    with (tmp_path / "lab.log").open("wb") as log:
        lab = subprocess.Popen(
            [sys.executable, "-P", "-c", program, *words],
            cwd=own,
            env=environment,
            stdout=log,
            stderr=log,
        )
    url = f"http://127.0.0.1:{port}/api/contents/notebooks?token=t"
    answers: list[Any] = []

    def ended_or_answers() -> bool:
        # JupyterLab says that it runs, also in its runtime directory, before it listens.
        with contextlib.suppress(urllib.error.URLError), urllib.request.urlopen(url) as answer:
            answers.append(json.load(answer))
        return bool(answers) or lab.poll() is not None

    try:
        eventually(ended_or_answers)
        assert lab.poll() is None, (tmp_path / "lab.log").read_text("utf-8")
    finally:
        lab.terminate()
        lab.wait()

    assert "/lab/tree/notebooks?token=" in (tmp_path / "lab.log").read_text("utf-8")
    listed = {entry["name"] for entry in answers[0]["content"]}
    assert {path.name for path in NOTEBOOKS.glob("*.ipynb")} == listed
    assert "--allow-root" not in {path.name for path in own.iterdir()}
