"""
`offsetbook consumer-groups`: the flags of Kafka's own tool, with our safeguards.

One file for each action. Tables have the tool's columns and words, its CSV has the tool's form, and
rows are sorted. What is right here and wrong there is in the help, and tested by name.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import click

from toolkit.cli.consumer_groups.flags import OPTIONS, check_flags
from toolkit.cli.consumer_groups.words import HELP

# The flag that names an action: where it is done.
ACTIONS = {
    "list": "listing",
    "describe": "describe",
    "reset-offsets": "reset",
    "delete-offsets": "delete_offsets",
    "delete": "delete_groups",
    "validate-regex": "validate_regex",
}


def _run(**given: Any) -> None:
    context = click.get_current_context()
    set_by_user = {
        name
        for name in given
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
    }
    action = check_flags(set_by_user)
    module = importlib.import_module(f"toolkit.cli.consumer_groups.{ACTIONS[action]}")
    context.exit(module.run(given))


_call: Callable[..., None] = _run
for _option in reversed(OPTIONS):
    _call = _option(_call)
_call = click.version_option(version("offsetbook"), prog_name="offsetbook")(_call)
command = click.command("consumer-groups", help=HELP)(_call)
