import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from main_program import Command
from terminal import talk

from toolkit.cli import COMMANDS, cli
from toolkit.cli.familiar_words import FAMILIAR

FRAMES = ("pandas", "numpy", "pyarrow", "plotly", "IPython", "ipywidgets")
# A pattern of a subscription needs re2, and a name that is not ASCII the widths that rich knows.
FOR_NAMES = ("re2", "rich")
CLIENTS = ("kafka", "confluent_kafka")
HEAVY = ("pandas", "numpy", "pyarrow", "kafka", "confluent_kafka", "pyspark", "papermill", "rich")
SHOW_MODULES = """
import sys
from toolkit.cli import cli
try:
    cli({arguments!r}, prog_name="offsetbook")
finally:
    print(*sorted({{name.split(".")[0] for name in sys.modules}}), file=sys.stderr)
"""


def modules_after(*arguments: str) -> tuple[str, set[str]]:
    """Return what a command wrote to stdout, and which modules were imported for it."""
    done = subprocess.run(
        [sys.executable, "-c", SHOW_MODULES.format(arguments=list(arguments))],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, set(done.stderr.split())


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("--version",),
        ("completion", "bash"),
        *((name, "--help") for name in ("groups", "lag", "clusters")),
    ],
    ids=" ".join,
)
def test_help_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    """Help answers at once because no client, frame or engine is imported for it."""
    _, imported = modules_after(*arguments)

    assert not set(HEAVY) & imported
    assert "click" in imported


SMALL = {
    ("fleet", "list"): (*FRAMES, *FOR_NAMES, *CLIENTS),
    ("audit", "list"): (*FRAMES, *FOR_NAMES, *CLIENTS),
    ("clusters",): (*FRAMES, *FOR_NAMES, "confluent_kafka"),
    ("groups", "list"): (*FRAMES, "confluent_kafka"),
    ("paused-partitions",): (*FRAMES, "confluent_kafka"),
    ("groups", "describe", "billing"): (*FRAMES,),
    ("health", "--group", "billing"): (*FRAMES, *FOR_NAMES, "confluent_kafka"),
    ("lag", "--group", "billing"): (*FRAMES, *FOR_NAMES, "confluent_kafka"),
    ("lag", "--by", "partition", "--output", "csv"): (*FRAMES, "confluent_kafka"),
}


@pytest.mark.parametrize("arguments", SMALL, ids=" ".join)
def test_a_small_command_imports_little(arguments: tuple[str, ...], fleet: Path) -> None:
    """It loads no frames, and of Kafka's client only what sends requests."""
    written, imported = modules_after(*arguments, "--fleet", str(fleet))

    assert written.startswith("cluster") or arguments[0] == "audit"
    assert not set(SMALL[arguments]) & imported


def test_help_names_every_command(offsetbook: Command) -> None:
    """The top-level help lists each command once, by purpose, with its one line."""
    done = offsetbook("--help")

    assert done.returncode == 0
    shown = " ".join(done.stdout.split())  # a line of help may be folded
    for name, (_, line) in COMMANDS.items():
        assert 1 == shown.count(f" {name} {line}")


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["list"], "offsetbook groups list"),
        (["describe", "--group", "payments"], "offsetbook groups describe GROUP"),
        (["delete", "payments"], "offsetbook delete-groups"),
        (["reset-offsets"], "offsetbook move"),
        (["topics", "--list"], "kafka-topics.sh"),
        (["desribe"], "offsetbook groups describe GROUP"),
        (["fleetlag"], "offsetbook fleet-lag"),
        (["xyzzy"], "offsetbook --help"),
        (["--describe", "--group", "payments"], "offsetbook consumer-groups"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_words_of_other_tools_lead_on(
    arguments: list[str], meant: str, offsetbook_main: Command
) -> None:
    """A word that is no command is a usage error of one line, which names the one that is meant."""
    done = offsetbook_main(*arguments)

    assert (2, "") == (done.returncode, done.stdout)
    (line,) = done.stderr.splitlines()
    assert arguments[0] in line
    assert meant in line.partition("Try: ")[2]


def test_suggested_commands_exist() -> None:
    """Every command that a suggestion names can be called."""
    for hint in set(FAMILIAR.values()):
        for words in re.findall(r"'offsetbook ([^']*)'", hint):
            first, *rest = words.split()
            command = cli.get_command(click.Context(cli), first)
            assert command or first in {"--help", "--version"}, hint
            if isinstance(command, click.Group):
                assert not rest or rest[0] in command.commands, hint


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_no_color_is_respected(
    no_color: str, *, coloured: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error at a terminal is coloured, unless $NO_COLOR is set."""
    monkeypatch.setenv("NO_COLOR", no_color)

    code, seen = talk(["lag"], tmp_path / "missing.yaml", says=[], TERM="xterm")

    assert code == 2
    assert "missing.yaml" in seen
    assert coloured is ("\x1b[" in seen)
