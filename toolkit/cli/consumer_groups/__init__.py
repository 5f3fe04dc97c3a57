"""
`offsetbook consumer-groups`: the flags of Kafka's own tool, with our safeguards.

One file for each action, or for a few that are one. Tables have the tool's columns and words, its
CSV has the tool's form, and rows are sorted. What is right here and wrong there is in the help, and
tested by name.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import click

from toolkit.cli.consumer_groups.flags import OPTIONS, check_flags
from toolkit.cli.consumer_groups.help_text import HELP

# The flag that names an action: where it is done, and by which function.
ACTIONS = {
    "list": ("list", "run"),
    "describe": ("describe", "run"),
    "reset-offsets": ("reset", "run"),
    "delete-offsets": ("delete_offsets", "run"),
    "delete": ("delete_groups", "run"),
    "pause": ("pause_resume", "pause"),
    "resume": ("pause_resume", "resume"),
    "paused-partitions": ("pause_resume", "paused_partitions"),
    "validate-regex": ("validate_regex", "run"),
}


def _run(**given: Any) -> None:
    context = click.get_current_context()
    set_by_user = {
        name
        for name in given
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
    }
    action = check_flags(set_by_user)
    module, function = ACTIONS[action]
    run = getattr(importlib.import_module(f"toolkit.cli.consumer_groups.{module}"), function)
    context.exit(run(given))


_call: Callable[..., None] = _run
for _option in reversed(OPTIONS):
    _call = _option(_call)
_call = click.version_option(version("offsetbook"), prog_name="offsetbook")(_call)
command = click.command("consumer-groups", help=HELP)(_call)
