"""README and docs tell the truth: what there is, is in them, and what is in them, works."""

import importlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import psutil
import pytest
from main_program import call_main
from workspaces import shown_commands

import toolkit
from toolkit.cli import COMMANDS, cli
from toolkit.planning.diagnosis.group_health import Health
from toolkit.planning.guardrails.registry import NOTES, RULES
from toolkit.planning.lag.status_rules import WORDS
from toolkit.sandbox.seed import GROUPS
from toolkit.storage.fleet_file import KNOWN

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = [README, *sorted(ROOT.glob("docs/**/*.md"), reverse=True)]  # the tutorial is the first
TEXT = {page: page.read_text("utf-8") for page in PAGES}
DOCS = "\n".join(TEXT.values())
# A block of `sh` runs on the sandbox as it stands; one of `console` shows what runs elsewhere.
BLOCKS = re.findall(r"```sh\n(.*?)```", DOCS, re.DOTALL)
LINES = [line.split("#")[0].strip() for block in BLOCKS for line in block.splitlines()]
SHOWN = re.findall(r"^\$ (offsetbook .*?)(?:  +#.*)?$", DOCS, re.MULTILINE)
UP, DOWN = (["offsetbook", "sandbox", state] for state in ("up", "down"))


def test_every_command_and_notebook_is_in_the_docs() -> None:
    """On a page that was written by hand, not only in the reference."""
    named = set(re.findall(r"offsetbook ([\w-]+)", DOCS))
    missing = [name for name in COMMANDS if name not in named and name != "demo"]
    unnamed = [
        path.name for path in ROOT.glob("notebooks/*.ipynb") if f"notebooks/{path.name}" not in DOCS
    ]

    assert [] == missing
    assert [] == unnamed


def test_health_and_status_are_compared() -> None:
    """The page on the health of groups has its words beside the statuses of the fleet job."""
    text = TEXT[ROOT / "docs/how-to/health.md"].partition("## Health and status")[2]
    words = {*re.findall(r"[A-Za-z]+", text.partition("\n## ")[0])}

    assert set() == {*map(str, Health), *WORDS} - words


def test_every_seeded_group_is_in_the_docs() -> None:
    """The page on the sandbox lists each of its groups with what is wrong with it."""
    rows = [f"| `{group.group_id}` | {group.problem} | {group.story} |" for group in GROUPS]

    assert [] == [row for row in rows if row not in TEXT[ROOT / "docs/reference/sandbox.md"]]


def test_the_readme_is_one_screen() -> None:
    """The first page says what there is and links to the rest, in at most 450 words."""
    assert [] == README.read_text("utf-8").split()[450:]


def test_every_make_target_in_the_docs_exists() -> None:
    """Make knows each target that a page names."""
    targets = {line.split()[1] for line in LINES if line.startswith("make ")}

    assert {"demo", "docs", "test", "lab", "lint", "clean"} <= targets
    for target in targets:
        command = ["make", "-n", target]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)


def test_local_links_lead_somewhere() -> None:
    """Every link of a page to a file of the project has that file behind it."""
    pages = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
    links = [
        (page.name, link)
        for page in pages
        for link in re.findall(r"\]\((?!http)([^)#]+)", page.read_text("utf-8"))
        if not (page.parent / link).exists()
    ]

    assert [] == links


def test_every_page_is_in_the_table_of_contents() -> None:
    """Every page can be reached from the start page."""
    listed = (ROOT / "docs/site/contents.txt").read_text("utf-8").split()
    names = [str(page.relative_to(ROOT).with_suffix("")) for page in PAGES if page != README]

    assert [] == sorted(set(names) - set(listed))


def test_commands_that_are_only_shown_have_the_options_they_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a page shows for clusters of your own is taken by the real parser."""
    monkeypatch.chdir(tmp_path)
    Path("client.properties").touch()
    assert len(SHOWN) > 10
    wrong = [(line, why) for line in SHOWN if (why := why_not_parsed(shlex.split(line)[1:]))]

    assert [] == wrong


def test_the_reference_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command, notebook, rule, exit code, setting and public name has a row or heading."""
    monkeypatch.syspath_prepend(ROOT / "docs/site")
    pages = {name: make() for name, make in importlib.import_module("reference").PAGES.items()}
    has = {
        "commands": {f"## offsetbook {name}\n" for name in COMMANDS},
        "notebooks": {f"## {path.stem}: " for path in ROOT.glob("notebooks/*.ipynb")},
        "guard_rails": {f"| `{name}` | " for name in [*RULES, *NOTES]},
        "exit_codes": {f"| {code} | `" for code in range(1, 5)},
        "fleet_settings": {f"| `{name}` | " for name in {*KNOWN, "state"} - {"limits"}},
        "python_api": {f"## toolkit.{name}\n" for name in dir(toolkit)},
    }

    assert {} == {
        name: missing
        for name, parts in has.items()
        if (missing := [part for part in sorted(parts) if part not in pages[name]])
    }


def why_not_parsed(words: list[str]) -> str:
    """Return why the command line refuses words before it does anything; empty if it takes them."""
    command: click.Command | None = cli
    context = None
    try:
        while isinstance(command, click.Group):
            context = click.Context(command, parent=context, info_name=command.name)
            _, command, words = command.resolve_command(context, words)
        command.make_context(command.name, words, parent=context)
    except click.UsageError as exc:
        return exc.format_message()
    return ""


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
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def run_or_call(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run what starts Spark or a notebook as a newcomer would, and save the rest a new process."""
    if command[1] in {"run", "fleet-lag"}:
        return run(command, folder)
    return call_main(command[1:], folder=folder, OFFSETBOOK_FLEET=None, OFFSETBOOK_SANDBOX=None)


@pytest.mark.slow("every command in the docs")
@pytest.mark.starts("brokers")
def test_every_command_in_the_docs_runs(workplace: Path) -> None:
    """The commands of the pages succeed on one sandbox, in a folder with the notebooks."""
    commands = [shlex.split(line) for line in LINES if line.startswith("offsetbook ")]
    assert UP in commands
    assert DOWN in commands
    commands = [UP, *(words for words in commands if words not in (UP, DOWN)), DOWN]
    try:
        done = [run_or_call(command, workplace) for command in commands]
    finally:
        run_or_call(commands[-1], workplace)

    assert [] == [(d.args, d.stdout, d.stderr) for d in done if d.returncode]
    assert 2 == len(list(workplace.glob("runs/*/result.json")))


@pytest.mark.slow("two clusters")
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
    pages = [Path(workplace, report).read_text("utf-8") for report in reports]
    # What was removed is named nowhere: the commands are for `offsetbook lab`, the next step.
    assert all(shown_commands(page) and ".sandbox/demo" not in page for page in pages)
    # Others come and go meanwhile; one that is gone has no command line any more.
    running = {p.pid: " ".join(p.info["cmdline"] or ()) for p in psutil.process_iter(["cmdline"])}
    assert [] == [
        words for pid, words in running.items() if pid not in before and str(workplace) in words
    ]
