"""What shells complete, asked in the shells themselves."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from toolkit.storage.known_groups import group_names, keep_group_names

NAMES = ["payments", "payroll", "orders:1", "pay;rm -rf", "-pay", "pay roll", "$(pay)"]
FLEET = """\
clusters:
  eu: {bootstrap.servers: "eu:9092"}
  us: {bootstrap.servers: "us:9092"}
"""
# Each script takes command lines and prints what is offered for the last word of each, and END. In
# bash and zsh it calls the function that a press of the tab key would call; fish is asked.
SCRIPTS = {
    "bash": """\
source <(offsetbook completion bash)
for line; do
    COMP_WORDS=($line); [[ $line == *" " ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
    _offsetbook_completion offsetbook
    printf '%s\\n' "${COMPREPLY[@]}" END
done
""",
    "zsh": """\
compdef() { }
source <(offsetbook completion zsh)
_describe() { printf '%s\\n' ${${(P)argv[-2]}%%:*} }
compadd() { printf '%s\\n' ${(P)argv[-1]} }
for line; do
    words=(${(s: :)line}); [[ $line == *" " ]] && words+=("")
    CURRENT=$#words
    _offsetbook_completion
    echo END
done
""",
    "fish": """\
offsetbook completion fish | source
for line in $argv
    complete -C "$line" | string replace -r '\\t.*' ''
    echo END
end
""",
}
FLAGS = {"bash": ["--norc", "-c"], "zsh": ["-f", "-c"], "fish": ["--no-config", "-c"]}
OFFERED = {
    "offsetbook la": ["lab", "lag"],
    "offsetbook lag --cluster ": ["eu", "us"],
    "offsetbook lag --cluster eu --group pay": ["payments", "payroll"],
    "offsetbook lag -c eu -g pay": ["payments", "payroll"],
    "offsetbook groups describe pa": ["payments", "payroll"],
    "offsetbook consumer-groups --bootstrap-server eu:9092 --group paym": ["payments"],
    "offsetbook reset --cluster us --group ": [],
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a fleet file; of its clusters the groups of `eu` were listed before."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("OFFSETBOOK_FLEET", raising=False)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "fleet.yaml").write_text(FLEET, "utf-8")
    keep_group_names("eu:9092", NAMES)
    return tmp_path


def completed(shell: str, lines: Iterable[str], folder: Path) -> list[list[str]]:
    """Return what a shell offers for each command line; it must print nothing else."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    name = [] if shell == "fish" else [shell]  # what the others call $0
    done = subprocess.run(
        [program, *FLAGS[shell], SCRIPTS[shell], *name, *lines],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "" == done.stderr
    return [sorted(part.split()) for part in done.stdout.split("END\n")[:-1]]


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_shell_completes(shell: str, home: Path) -> None:
    """Commands, clusters of the fleet file, and listed groups that need no quotes are offered."""
    assert OFFERED == dict(zip(OFFERED, completed(shell, OFFERED, home), strict=True))


@pytest.mark.parametrize("broken", ["", "clusters: [", "no fleet file"])
def test_nothing_to_complete(broken: str, home: Path) -> None:
    """With a missing or broken fleet file nothing is completed and nothing printed."""
    fleet = home / "fleet.yaml"
    if broken == "no fleet file":
        fleet.unlink()
    else:
        fleet.write_text(broken, "utf-8")
    for file in (home / "state" / "offsetbook" / "groups").iterdir():
        file.write_text("[", "utf-8")

    lines = ["offsetbook lag --cluster ", "offsetbook groups describe "]
    assert [[], []] == completed("bash", lines, home)
    assert [] == group_names("eu:9092")


def test_names_that_cannot_be_kept_fail_nothing(home: Path) -> None:
    """A folder that cannot be made costs the completion, not the command."""
    shutil.rmtree(home / "state")
    (home / "state").write_text("a file in the way", "utf-8")

    keep_group_names("eu:9092", NAMES)

    assert [] == group_names("eu:9092")
