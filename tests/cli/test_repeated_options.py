"""An option that takes one value is given once: click would take the last without a word."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from toolkit.cli import cli, refuse_repeated
from toolkit.errors import UsageError


def commands(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of each command below a group."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))
        else:
            yield (*words, name)


def test_no_option_of_any_command_wins_in_silence() -> None:
    """Two values are refused with the name of the option; what may be repeated is not refused."""
    context = click.Context(cli)
    for words in commands(cli):
        command: click.Command | None = cli
        for word in words:
            assert isinstance(command, click.Group)
            command = command.get_command(context, word)
        assert command
        for option in (one for one in command.params if isinstance(one, click.Option)):
            name = max(option.opts, key=len)
            once = [name, *(["1"] * (0 if option.is_flag else option.nargs))]
            refuse_repeated(cli, [*words, *once], context)
            if option.multiple or option.count:
                refuse_repeated(cli, [*words, *once, *once], context)
                continue
            with pytest.raises(UsageError, match=f"^{name} is given 2 times"):
                refuse_repeated(cli, [*words, *once, *once], context)


def test_a_command_with_two_targets_does_not_begin() -> None:
    """The command line itself refuses it, before it looks for a cluster."""
    words = ["reset", "--group", "payments", "--to-offset", "5", "--to-offset", "6"]
    done = CliRunner().invoke(cli, [*words, "--cluster", "127.0.0.1:1", "--dry-run"])

    assert isinstance(done.exception, UsageError)
    assert "--to-offset is given 2 times. Try: give it once" == str(done.exception)
