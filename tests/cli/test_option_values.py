"""What click itself would take: the last of two values, and numbers as Python reads them."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from main_program import call_main

from toolkit.cli import cli, refuse_repeated
from toolkit.cli.change_flow import approval_parameters
from toolkit.errors import UsageError
from toolkit.journeys.reset import target
from toolkit.planning.changes.pause import check_position

SHORT = {"--cluster": "-c", "--group": "-g", "--output": "-o", "--topic": "-t"}


def options(group: click.Group, *words: str) -> Iterator[tuple[list[str], click.Option]]:
    """Yield each option of each command below a group, with the words of its command."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from options(command, *words, name)
        elif command:
            found = (one for one in command.params if isinstance(one, click.Option))
            yield from (([*words, name], option) for option in found)


def test_no_option_of_any_command_wins_in_silence() -> None:
    """Two values are refused with the name of the option; what may be repeated is not refused."""
    context = click.Context(cli)
    for words, option in options(cli):
        name = max(option.opts, key=len)
        once = [name, *(["1"] * (0 if option.is_flag else option.nargs))]
        refuse_repeated(cli, [*words, *once], context)
        if option.multiple or option.count:
            refuse_repeated(cli, [*words, *once, *once], context)
            continue
        with pytest.raises(UsageError, match=f"^{name} is given 2 times"):
            refuse_repeated(cli, [*words, *once, *once], context)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["runbooks"], 2, "does not exist"),
        (["fleet-history", "runs"], 1, "no history at"),
        (["fleet-history", "compact"], 1, "no history at"),
        (["fleet-history", "expire", "--keep-days", "30"], 1, "no history at"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_folder_that_is_not_there_is_not_in_order(
    tmp_path: Path, words: list[str], code: int, says: str
) -> None:
    """A slip in its name would else look like nothing to do, in every night's job."""
    done = call_main([*words, str(tmp_path / "runbok")], folder=tmp_path)

    assert (code, "") == (done.returncode, done.stdout)
    assert says in done.stderr


def test_a_command_with_two_targets_does_not_begin() -> None:
    """The command line itself refuses it, before it looks for a cluster."""
    words = ["reset", "--group", "payments", "--to-offset", "5", "--to-offset", "6"]
    done = CliRunner().invoke(cli, [*words, "--cluster", "127.0.0.1:1", "--dry-run"])

    assert isinstance(done.exception, UsageError)
    assert "--to-offset is given 2 times. Try: give it once" == str(done.exception)


@pytest.mark.parametrize("number", ["1_0", "\u0661\u0660", "\uff19", "0x10", "1.0", ""])
@pytest.mark.parametrize(
    "words",
    [
        ("reset", "--to-offset"),
        ("reset", "--shift-by"),
        ("consumer-groups", "--timeout"),
        ("peek", "--before"),
        ("lab", "--port"),
        ("fleet-history", "expire", "--keep-days"),
    ],
    ids=lambda words: words[-1],
)
def test_a_number_has_ascii_digits(words: tuple[str, ...], number: str) -> None:
    """Anything else is a usage error, before the command looks for a cluster or a folder."""
    option = f"{words[-1]}={number}"
    group = ["--group", "payments"] * (words[0] in {"reset", "peek"})
    done = CliRunner().invoke(cli, [*words[:-1], option, *group])

    assert 2 == done.exit_code
    assert f"{number!r} is not a whole number" in done.output


@pytest.mark.parametrize("text", ["5x", "0s", "-5s", "1mo", "5", "soon", ""])
@pytest.mark.parametrize(
    ("command", "option"),
    [("lag", "--watch"), ("health", "--sample-interval"), ("health", "--stuck-after")],
)
def test_a_bad_duration_is_refused_by_name(command: str, option: str, text: str) -> None:
    """The command does not begin, and the message has the option and what was written."""
    done = CliRunner().invoke(cli, [command, f"{option}={text}", "--cluster", "127.0.0.1:1"])

    assert 2 == done.exit_code
    assert f"Invalid value for '{option}': " in done.output
    assert repr(text) in done.output


@pytest.mark.parametrize("mode", ["to-offset", "shift-by"])
@pytest.mark.parametrize("number", [str(2**63), str(-(2**63)), "\u0661", "1_0"])
def test_a_target_is_an_offset_that_a_log_can_have(mode: str, number: str) -> None:
    """Notebooks and Python callers write it as text, and get the same rule."""
    with pytest.raises(UsageError):
        target(mode, number)


@pytest.mark.parametrize("position", ["\u0661", "-1", "1_0", str(2**63), "first"])
def test_a_position_to_commit_first_is_an_offset(position: str) -> None:
    """So is what is committed before a pause where nothing is."""
    with pytest.raises(UsageError, match="earliest, latest or an offset"):
        check_position(position)


def test_a_short_option_means_the_same_on_every_command() -> None:
    """Every command with --cluster, --group, --output or --topic takes the letter, and no other."""
    for words, option in options(cli):
        (expected,) = [SHORT[name] for name in option.opts if name in SHORT] or [None]
        letters = [name for name in option.opts if not name.startswith("--")]

        assert [expected] == letters if expected else not {*SHORT.values()} & {*letters}, words


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("lag", "-group", "payments"), "--group"),
        (("groups", "describe", "payments", "-cluster=eu"), "--cluster"),
        (("consumer-groups", "--delete-offsets", "-topic=orders", "-g", "payments"), "--topic"),
        (("consumer-groups", "-describe"), "--describe"),
    ],
)
def test_a_long_option_has_two_dashes(words: tuple[str, ...], meant: str) -> None:
    """Kafka's tools also take one, which here would be a letter and a value: it is refused."""
    done = CliRunner().invoke(cli, [*words])

    assert isinstance(done.exception, UsageError)
    assert f"{meant[1:]} is no option. Try: write {meant}" == str(done.exception)


@pytest.mark.parametrize("execute", [False, True])
def test_an_empty_approval_approves_nothing(*, execute: bool) -> None:
    """A script whose variable is empty does not approve whatever is planned, with --execute too."""
    given = {"dry_run": False, "approve": "", "reason": "why", "overrides": (), "execute": execute}

    with pytest.raises(UsageError, match="--approve is empty"):
        approval_parameters(given)
