"""`offsetbook rename`: made in `copy`, of which it is the first half."""

from __future__ import annotations

from toolkit.cli.change_command import change_command
from toolkit.cli.changes.copy import rename_planner

command = change_command(rename_planner)
