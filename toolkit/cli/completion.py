"""offsetbook completion: the script with which a shell completes commands, options and names."""

from __future__ import annotations

import click


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """
    Print the completion script of a shell, to be read when the shell starts.

    \b
    bash, in ~/.bashrc:  source <(offsetbook completion bash)
    zsh, in ~/.zshrc:    source <(offsetbook completion zsh)
    fish:                offsetbook completion fish > ~/.config/fish/completions/offsetbook.fish

    Cluster names come from the fleet file, group names from the last 'offsetbook groups list' or
    'offsetbook lag' of the cluster. No broker is asked. Names with characters that a shell treats
    specially are not completed.
    """  # noqa: D301 -- \b is for click: keep these lines as they are
    from click.shell_completion import get_completion_class

    program = ctx.find_root()
    kind = get_completion_class(shell)
    if kind is None:  # click has all three
        raise AssertionError(shell)
    click.echo(kind(program.command, {}, "offsetbook", "_OFFSETBOOK_COMPLETE").source())
