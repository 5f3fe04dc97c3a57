"""The README tells the truth: what there is, is in it, and what is in it, works."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from main_program import call_main

from toolkit.cli import COMMANDS
from toolkit.sandbox.seed import GROUPS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
LINES = [line.split("#")[0].strip() for block in BLOCKS for line in block.splitlines()]


def test_every_command_and_notebook_is_in_the_readme() -> None:
    """Whatever can be run is on the first page."""
    missing = [name for name in COMMANDS if f"offsetbook {name}" not in README and name != "demo"]
    unnamed = [path.name for path in ROOT.glob("notebooks/*.ipynb") if path.name not in README]

    assert [] == missing
    assert [] == unnamed


def test_every_seeded_group_is_in_the_readme() -> None:
    """The README lists each group of the sandbox with what is wrong with it."""
    rows = [f"| `{group.group_id}` | {group.problem} | {group.story} |" for group in GROUPS]

    assert [] == [row for row in rows if row not in README]


def test_every_make_target_in_the_readme_exists() -> None:
    """Make knows each target that the README names."""
    targets = {line.split()[1] for line in LINES if line.startswith("make ")}

    assert {"demo", "test", "lab", "lint", "clean"} <= targets
    for target in targets:
        command = ["make", "-n", target]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)


def test_local_links_lead_somewhere() -> None:
    """Every link to a file of the project has that file behind it."""
    for page in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        links = re.findall(r"\]\((?!http)([^)#]+)", (ROOT / page).read_text("utf-8"))
        assert [] == [link for link in links if not (ROOT / link).exists()]


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """Return an empty folder with the notebooks in it, as a fresh clone has them."""
    (tmp_path / "notebooks").symlink_to(ROOT / "notebooks")
    return tmp_path


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as a newcomer would: the environment on the path, nothing else set."""
    places = [str(Path(sys.executable).parent), os.environ["PATH"]]
    environment = {**os.environ, "PATH": os.pathsep.join(places)}
    for name in ("OFFSETBOOK_FLEET", "OFFSETBOOK_SANDBOX"):
        environment.pop(name, None)
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def run_or_call(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run what starts Spark or a notebook as a newcomer would, and save the rest a new process."""
    if command[1] in {"run", "fleet-lag"}:
        return run(command, folder)
    return call_main(command[1:], folder=folder, OFFSETBOOK_FLEET=None, OFFSETBOOK_SANDBOX=None)


@pytest.mark.starts("brokers")
def test_every_readme_command_runs(workplace: Path) -> None:
    """The commands of the tour succeed one after the other, in a folder with the notebooks."""
    commands = [shlex.split(line) for line in LINES if line.startswith("offsetbook ")]
    assert ["offsetbook", "sandbox", "up"] == commands[0]
    assert ["offsetbook", "sandbox", "down"] == commands[-1]
    try:
        done = [run_or_call(command, workplace) for command in commands]
    finally:
        run_or_call(commands[-1], workplace)

    assert [] == [(d.args, d.stdout, d.stderr) for d in done if d.returncode]
    assert 2 == len(list(workplace.glob("runs/*/result.json")))


@pytest.mark.starts("brokers")
def test_the_demonstration_finds_the_leftovers_and_leaves_nothing(workplace: Path) -> None:
    """The demo ends well, prints the seeded leftovers and three reports, and stops everything."""
    before = set(psutil.pids())
    done = run(["offsetbook", "demo"], workplace)

    assert 0 == done.returncode, done.stderr
    for name in ("billing", "billing-v2"):
        assert name in done.stdout
    reports = re.findall(r"\S+/report\.html", done.stdout)
    assert 3 == len(reports)
    assert all(Path(workplace, report).stat().st_size > 0 for report in reports)
    # Others come and go meanwhile; one that is gone has no command line any more.
    running = {p.pid: " ".join(p.info["cmdline"] or ()) for p in psutil.process_iter(["cmdline"])}
    assert [] == [
        words for pid, words in running.items() if pid not in before and str(workplace) in words
    ]
