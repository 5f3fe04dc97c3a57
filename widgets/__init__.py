"""
Interactive widgets for JupyterLab: pickers, pause board and plan review.

A widget is handed data and callables and holds no logic about Kafka and no secret. Each is plain
HTML as well, for reports and pages without a kernel.
"""

from widgets.background import BackgroundRun
from widgets.charts import expiry_timeline, lag_chart
from widgets.pause_board import BoardSelection, pause_board
from widgets.pickers import group_picker, run_picker
from widgets.plan_review import ReviewDefaults, plan_review

__all__ = [
    "BackgroundRun",
    "BoardSelection",
    "ReviewDefaults",
    "expiry_timeline",
    "group_picker",
    "lag_chart",
    "pause_board",
    "plan_review",
    "run_picker",
]
