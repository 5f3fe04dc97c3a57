"""`offsetbook rename`: built in `copy`, because a rename begins with a copy."""

from __future__ import annotations

from toolkit.cli.change_command import change_command
from toolkit.cli.changes.copy import rename_planner

command = change_command(rename_planner)
