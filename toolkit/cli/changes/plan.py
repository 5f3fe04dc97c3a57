"""`offsetbook plan`: make a plan file, which is reviewed and applied later."""

from __future__ import annotations

import importlib

import click

from toolkit.cli.change_command import Planner, plan_command

# name: (module, attribute); imported only when it is called.
PLANNERS = {
    "reset": ("reset", "planner"),
    "delete-offsets": ("delete_offsets", "planner"),
    "delete-groups": ("delete_groups", "planner"),
    "copy": ("copy", "planner"),
    "rename": ("copy", "rename_planner"),
    "restore": ("restore", "planner"),
    "rescue": ("rescue", "planner"),
    "undo": ("undo", "planner"),
    "pause": ("pause", "planner"),
    "resume": ("resume", "planner"),
    "move": ("move", "planner"),
}


class Plans(click.Group):
    """Knows the planners by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(PLANNERS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in PLANNERS:
            return None
        module, attribute = PLANNERS[cmd_name]
        planner: Planner = getattr(
            importlib.import_module(f"toolkit.cli.changes.{module}"), attribute
        )
        return plan_command(planner)


@click.group("plan", cls=Plans)
def command() -> None:
    """Create a plan file. Nothing is changed until 'offsetbook apply'."""
