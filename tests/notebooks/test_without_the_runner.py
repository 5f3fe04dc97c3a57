"""Notebooks run by what everybody has: papermill, and `jupyter execute`."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from lab import Lab
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell
from workspaces import NOTEBOOKS, Workspace

from toolkit.sandbox.fleet import Sandbox
from toolkit.sandbox.seed import POISON
from toolkit.storage import audit
from toolkit.storage.undo_records import list_runs

pytestmark = pytest.mark.starts("kernels")

# By notebook: parameters, and what it shows of the sandbox.
READING: dict[int, tuple[dict[str, Any], str]] = {
    20: ({"groups": ["billing"]}, "invoices.draft"),
    90: ({"groups": ["fraud-check"], "sample_interval": "2s"}, str(POISON.topic)),
}
PAUSED = {"groups": ["fraud-check"], "topics": [f"{POISON.topic}:{POISON.partition}"]}


# The card that the cell above shows, approved as by hand.
APPROVE = """\
(card,) = (shown for shown in Out.values() if hasattr(shown, "approve"))
card.reason.value, card.confirmation_input.value = "why", {group!r}
card.approve()
assert card.background.wait(300)"""
BADGE = re.compile(r"<summary>Plan review.*?ow-badge[^>]*>([^<]*)<")


def append_cell(path: Path, source: str) -> None:
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.append(new_code_cell(source))
    nbformat.write(notebook, path)


def ran(*command: str, folder: Path) -> None:
    """Run a program of Jupyter's as a shell does, far from the repository."""
    words = [sys.executable, "-m", *command]
    done = subprocess.run(
        words, check=False, cwd=folder, capture_output=True, text=True, timeout=1200
    )
    assert 0 == done.returncode, done.stderr[-3000:]


def said(path: Path) -> str:
    """Return all that a notebook shows after a run, in which every cell has run."""
    cells = [c for c in json.loads(path.read_text("utf-8"))["cells"] if c["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in cells if "".join(cell["source"]).strip())
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert {"error"}.isdisjoint(output["output_type"] for output in outputs)
    return json.dumps(outputs, ensure_ascii=False)


def test_papermill(sandbox: Sandbox, tmp_path: Path) -> None:
    """What only reads runs with parameters on papermill's command line, and shows what it found."""
    for number, (parameters, expected) in READING.items():
        (path,) = NOTEBOOKS.glob(f"{number}_*.ipynb")
        words = ["-p", "cluster", "eu", "-p", "fleet_file", str(sandbox.fleet_file)]
        given = parameters | ({} if number == 20 else {"state": str(tmp_path / "state")})
        words += ["-y", json.dumps(given)]
        ran("papermill", str(path), f"{number}.ipynb", *words, folder=tmp_path)
        assert expected in said(tmp_path / f"{number}.ipynb")


def test_jupyter_execute(sandbox: Sandbox, workspace: Workspace, tmp_path: Path) -> None:
    """What changes something is a dry run there too: a pause, a reset, and an undo of a run."""
    operator, group = workspace.operator, workspace.group()
    operator.apply(operator.reset(group, to=3), "keeps-committing")
    (run,) = list_runs(operator.state)
    seeded = {"cluster": "eu", "fleet_file": str(sandbox.fleet_file), "state": str(tmp_path / "s")}
    quiet = {
        "cluster": "test",
        "fleet_file": str(workspace.fleet_file),
        "state": str(operator.state),
    }
    folder = Lab("", "", tmp_path)
    names = [
        folder.copy(40, "pause", **seeded, **PAUSED),
        folder.copy(50, "reset", **quiet, groups=[group], mode="to-earliest"),
        folder.copy(70, "undo", **quiet, run=run),
    ]
    applied = folder.copy(
        *(50, "applied"),
        **quiet,
        groups=[group],
        mode="to-earliest",
        overrides=["keeps-committing"],
    )
    append_cell(tmp_path / applied, APPROVE.format(group=group))
    ran("jupyter", "execute", "--inplace", *names, applied, folder=tmp_path)
    for name in names:
        shown = said(tmp_path / name)
        assert "Dry run: nothing was changed." in shown
        assert "No audit entry: nothing was applied." in shown
    assert [] == list(audit.read(tmp_path / "s"))
    assert 2 == sum(entry.event is audit.Event.INTENT for entry in operator.log)

    # What is saved says how the plan stands, to programs that know no widgets.
    for name, word in ((names[1], "awaiting approval"), (applied, "applied")):
        page, _ = HTMLExporter().from_filename(str(tmp_path / name))
        assert 1 == page.count("<summary>Plan review"), name
        (badge,) = BADGE.findall(page)
        assert word == badge
    assert "can be undone" in said(tmp_path / applied)
    assert "Nothing was applied" not in said(tmp_path / applied)
