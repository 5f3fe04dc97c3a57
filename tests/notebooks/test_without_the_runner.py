"""Notebooks run by what everybody has: papermill, and `jupyter execute`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from applications import Applications
from desks import Desk
from lab import Lab

from toolkit.model import TopicPartition
from toolkit.sandbox.fleet import Sandbox
from toolkit.sandbox.seed import POISON
from toolkit.storage import audit
from toolkit.storage.undo_records import list_runs

pytestmark = pytest.mark.starts("kernels")

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
# By notebook: parameters, and what it shows of the sandbox. 10 and 30, which start Spark, are not
# among them: they take half a minute each.
READING: dict[int, tuple[dict[str, Any], str]] = {
    20: ({"groups": ["billing"]}, "invoices.draft"),
    80: ({}, "the audit log is intact"),
    90: ({"group": "fraud-check", "sample_interval": "2s"}, str(POISON.topic)),
}
CHANGING: dict[int, dict[str, Any]] = {
    40: {"group": "fraud-check", "topics": [f"{POISON.topic}:{POISON.partition}"]},
    50: {"groups": ["nightly-export"], "mode": "to-earliest"},
    52: {"group": "nightly-export", "to_group": "nightly-export-2"},
    60: {"groups": ["billing"]},
    61: {"groups": ["nightly-export"]},
}


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


def test_jupyter_execute(sandbox: Sandbox, tmp_path: Path) -> None:
    """What changes something is a dry run there too, with the review that approves it by hand."""
    where = {"cluster": "eu", "fleet_file": str(sandbox.fleet_file), "state": str(tmp_path / "s")}
    folder = Lab("", "", tmp_path)
    names = [folder.copy(n, f"n{n}", **where, **own) for n, own in CHANGING.items()]
    ran("jupyter", "execute", "--inplace", *names, folder=tmp_path)
    for name in names:
        shown = said(tmp_path / name)
        assert "Dry run: nothing was changed." in shown
        assert "Nothing was recorded, because nothing was applied." in shown
    assert [] == list(audit.read(tmp_path / "s"))


def test_an_undo_by_jupyter_execute(desk: Desk, apps: Applications, tmp_path: Path) -> None:
    """A run can be looked up there, and what would be put back is shown."""
    group = apps.name("moved")
    topic = apps.create_topic(apps.name("orders"), records=9)
    desk.commit(group, {TopicPartition(topic, 0): 7})
    desk.apply(desk.reset(group))
    (run,) = list_runs(desk.state)
    fleet_file = tmp_path / "fleet.yaml"
    address = desk.cluster.bootstrap_servers
    fleet_file.write_text(f"clusters:\n  {desk.cluster.name}:\n    bootstrap.servers: {address}\n")
    where = {"fleet_file": str(fleet_file), "state": str(desk.state)}
    name = Lab("", "", tmp_path).copy(70, "undo", run=run, **where)
    ran("jupyter", "execute", "--inplace", name, folder=tmp_path)
    assert "Dry run: nothing was changed." in said(tmp_path / name)
    assert 1 == sum(entry.event is audit.Event.INTENT for entry in desk.log)
