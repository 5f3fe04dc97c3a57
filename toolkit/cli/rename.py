"""`offsetbook rename`: made in `copy`, of which it is the first half."""

from __future__ import annotations

from toolkit.cli.copy import rename_planner
from toolkit.cli.planner import change_command

command = change_command(rename_planner)
