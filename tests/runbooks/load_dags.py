"""Write down what the real Airflow finds in a file of DAGs: run in Airflow's own environment."""

import json
import os
import sys
from pathlib import Path

# Before it is imported: on a busy machine a file takes longer than the 30 s that it is given.
os.environ["AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT"] = "600"

from airflow.dag_processing.dagbag import DagBag
from airflow.providers.standard.operators.bash import BashOperator

source, target = sys.argv[1:]
bag = DagBag(source)
tasks = [
    {
        "task": task.task_id,
        "operator": type(task).__name__,
        "command": task.bash_command if isinstance(task, BashOperator) else None,
        "retries": task.retries,
        "skipped": list(task.skip_on_exit_code) if isinstance(task, BashOperator) else [],
        "notebook": getattr(task, "input_nb", None),
        "parameters": getattr(task, "parameters", None),
        "environment": getattr(task, "env", None),
    }
    for dag in bag.dags.values()
    for task in dag.tasks
]
found = {"errors": {str(key): text for key, text in bag.import_errors.items()}, "tasks": tasks}
Path(target).write_text(json.dumps(found), "utf-8")
