"""
The command line: one file per noun, loaded only when its command is called.

Tables and data go to stdout, messages to stderr. Exit codes: 0 done or nothing to do, 1 failed,
2 usage, 3 blocked by a guard-rail or missing approval, 4 partly done.
"""

from __future__ import annotations

import gc
import importlib
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from itertools import takewhile

import click
from click.shell_completion import CompletionItem

from toolkit.cli.output import (
    break_long_lines,
    echo_error,
    exit_if_full,
    open_closed_streams,
    replace_what_cannot_be_written,
    without_colour,
)
from toolkit.errors import ToolkitError, UsageError
from toolkit.kafka_io.client.shared_connections import SharedConnections

# By purpose, as --help groups them: name: (module, with its attribute if that is not `command`, and
# one line of help). The help is here so that --help imports nothing else.
SECTIONS = {
    "Look": {
        "clusters": (
            "inspect.clusters",
            "List the clusters in the fleet file and check that they are reachable.",
        ),
        "groups": ("inspect.groups", "List and describe groups of any type."),
        "health": (
            "inspect.health",
            "Show how every group is, in one word: ok, behind, stuck, stopped, ...",
        ),
        "lag": ("inspect.lag", "Show lag per group or per partition."),
        "fleet-lag": (
            "inspect.fleet_lag",
            "Show lag, status, trend and expiry across clusters, with history.",
        ),
        "fleet-history": (
            "inspect.fleet_history",
            "List, compact and expire stored fleet-lag results.",
        ),
        "peek": ("inspect.peek", "Show the records around a group's committed offsets."),
        "unsubscribed": (
            "inspect.unsubscribed",
            "Find committed offsets that no member subscribes to.",
        ),
        "paused-partitions": (
            "inspect.paused_partitions",
            "List paused partitions: who paused them, and until when.",
        ),
    },
    "Change live groups": {
        "move": ("changes.move", "Move the committed offsets of a live group."),
        "pause": ("changes.pause", "Pause partitions of a live group (KIP-1249)."),
        "resume": ("changes.resume", "Resume paused partitions."),
    },
    "Change empty groups, and unsubscribed offsets of live ones": {
        "reset": ("changes.reset", "Reset the committed offsets of empty groups."),
        "delete-offsets": ("changes.delete_offsets", "Delete committed offsets (KIP-496)."),
        "delete-groups": ("changes.delete_groups", "Delete empty groups (KIP-229)."),
        "copy": ("changes.copy", "Copy a group's offsets to a new or idle group."),
        "rename": (
            "changes.copy:rename_command",
            "Rename an empty group: copy its offsets, then delete the old group.",
        ),
        "rescue": ("changes.rescue", "Reset retention so that committed offsets do not expire."),
    },
    "Plans, records of changes, exported offsets": {
        "plan": ("changes.plan", "Write a change to a plan file for review, without applying it."),
        "apply": ("changes.apply", "Apply a plan file that was approved."),
        "undo": ("changes.undo", "Undo a run."),
        "audit": ("inspect.audit", "Show and verify the audit log."),
        "export": ("inspect.export", "Export committed offsets as JSON or CSV."),
        "restore": ("changes.restore", "Restore exported offsets."),
    },
    "Notebooks and runbooks": {
        "run": (
            "notebooks.run",
            "Run a runbook, or a notebook, headlessly and leave an HTML report.",
        ),
        "runbooks": ("notebooks.runbooks", "List the runbooks and check their pages."),
        "report": ("notebooks.report", "Write an executed notebook as one offline HTML file."),
        "runs-index": (
            "notebooks.runs_index",
            "Write the HTML page that lists the runs of a folder.",
        ),
        "lab": ("notebooks.lab", "Open JupyterLab on copies of the notebooks."),
        "init": ("notebooks.init", "Copy notebooks, runbooks and a commented fleet.yaml here."),
    },
    "Clusters and this machine": {
        "fleet": ("inspect.fleet", "Add clusters to the fleet file, list them, and check them."),
        "doctor": (
            "inspect.doctor",
            "Check this machine, the fleet file and each cluster, for a bug report.",
        ),
        "warm-up": ("warm_up", "Make Spark start with half the work on this machine."),
    },
    "Sandbox": {
        "sandbox": ("sandbox", "Run a local Kafka sandbox with one consumer group per problem."),
        "demo": ("demo", "Run a demo: two sandbox clusters, two notebooks, findings, reports."),
    },
    "Shell and scripts": {
        "consumer-groups": (
            "consumer_groups",
            "Drop-in for kafka-consumer-groups.sh, with safeguards and undo.",
        ),
        "completion": ("completion", "Print the completion script for bash, zsh or fish."),
    },
}
COMMANDS = {name: entry for section in SECTIONS.values() for name, entry in section.items()}


class LazyGroup(click.Group):
    """Knows its commands by name and imports one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command's module; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        found = importlib.import_module(f"toolkit.cli.{module}")
        command: click.Command = getattr(found, attribute or "command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is meant; raises UsageError with the one that may be meant."""
        if args[0] not in COMMANDS and not ctx.resilient_parsing:
            from toolkit.cli.familiar_words import unknown_command

            raise unknown_command(args[0], COMMANDS)
        name, command, rest = super().resolve_command(ctx, args)
        if command and not ctx.resilient_parsing:
            refuse_repeated(command, rest, ctx)
        return name, command, rest

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options before the command; those of Kafka's own tool lead to its drop-in."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as exc:
            from toolkit.cli.familiar_words import unknown_option

            raise unknown_option(exc.option_name) or exc from exc

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands, without importing any, and the options."""
        commands = [
            CompletionItem(name, help=text)
            for name, (_, text) in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the commands by purpose, without importing any."""
        width = max(map(len, COMMANDS))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(name.ljust(width), line) for name, (_, line) in commands.items()]
                )


def refuse_repeated(command: click.Command, args: Sequence[str], parent: click.Context) -> None:
    """Raise UsageError for an option that takes one value and has several: click takes the last."""
    refuse_single_dash(command, args)
    context = command.context_class(command, parent=parent, **command.context_settings)
    try:
        _, rest, given = command.make_parser(context).parse_args(list(args))
    except click.UsageError:
        return  # click tells what is wrong when it parses the command
    for option, times in Counter(one for one in given if isinstance(one, click.Option)).items():
        if times > 1 and not (option.multiple or option.count):
            name = max(option.opts, key=len)
            raise UsageError(f"{name} is given {times} times", hint="give it once")
    if (
        isinstance(command, click.Group)
        and rest
        and (inner := command.get_command(context, rest[0]))
    ):
        refuse_repeated(inner, rest[1:], context)


def refuse_single_dash(command: click.Command, args: Sequence[str]) -> None:
    """Raise UsageError for `-group`, which Kafka's tools take and click would read as `-g roup`."""
    names = {name for option in command.params for name in option.opts if name.startswith("--")}
    for word in takewhile(lambda word: word != "--", args):
        name = word.partition("=")[0]
        if f"-{name}" in names:
            raise UsageError(f"{name} is no option", hint=f"write -{name}")


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="offsetbook", prog_name="offsetbook")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """
    Inspect Kafka consumer groups; plan, apply and undo changes to them.

    Clusters come from a fleet file: --fleet, $OFFSETBOOK_FLEET, or the first of ./fleet.yaml, the
    sandbox's, these two in the two folders above, and the user's.
    """
    ctx.color = False if without_colour() else None
    connections = ctx.with_resource(closing(SharedConnections()))
    ctx.with_resource(connections.in_use())


def main() -> None:
    """Run the command line; a ToolkitError becomes one line on stderr and its exit code."""
    # A command keeps up to a million facts until it ends: searching them for cycles with the
    # default thresholds takes a third of the time.
    gc.set_threshold(50_000, 20, 100)
    open_closed_streams()
    replace_what_cannot_be_written()
    break_long_lines()
    try:
        cli(prog_name="offsetbook")
    except ToolkitError as exc:
        echo_error(exc)
        sys.exit(exc.exit_code)
    except OSError as exc:
        exit_if_full(exc)
        raise
