"""
What people click on in JupyterLab: pickers, boards and the review of a plan.

A widget is handed data and callables and holds no logic about Kafka and no secret. Each is plain
HTML as well, for reports and wherever nobody can click.
"""

from widgets.plan_review import Asked, plan_review

__all__ = ["Asked", "plan_review"]
