"""
Runbooks by Airflow 3: the command by BashOperator, and one notebook by PapermillOperator.

Prefer the command. It checks parameters strictly, applies the runbook's limits, ends in good order
when the task is stopped, and leaves `result.json` and a report. PapermillOperator runs a notebook
directly, and all of that is then missing: see `without_the_runner` below.

Needs apache-airflow-providers-standard and apache-airflow-providers-papermill.
"""
# ruff: noqa: INP001 - a file for Airflow's folder of DAGs, not a part of a package

from __future__ import annotations

import shlex
from datetime import UTC, datetime, timedelta

from airflow.providers.papermill.operators.papermill import PapermillOperator
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

# offsetbook has an environment of its own: Airflow's pins and its own do not agree.
HOME = "/opt/offsetbook"
WORK = "/var/lib/offsetbook"  # runs/ and history/ are there, and stay
ENVIRONMENT = {
    "PATH": f"{HOME}/.venv/bin:/usr/local/bin:/usr/bin:/bin",
    "OFFSETBOOK_FLEET": "/etc/offsetbook/fleet.yaml",
    "OFFSETBOOK_STATE": f"{WORK}/state",
}
ALWAYS = {
    "start_date": datetime(2026, 1, 1, tzinfo=UTC),
    "catchup": False,  # what was missed is not made up for: a run is about now
    "max_active_runs": 1,
    "max_active_tasks": 1,  # each may start a Spark of its own
    "tags": ["kafka", "offsetbook"],
}
# What was blocked is blocked again, and what was partly applied is for a person to look at.
NEVER_AGAIN = {"retries": 0, "execution_timeout": timedelta(hours=3)}

# No exit code is skipped over (skip_on_exit_code): 3 and 4 fail the task, and the log says why.
# When a task is stopped, Airflow sends SIGTERM to the shell and to offsetbook. The shell waits all
# the same, so that the words and the exit code are those of the run.
SCRIPT = """\
trap : TERM
{command}
code=$?
case $code in
  0) ;;
  1) echo "FAILED: the run did not come to its end" ;;
  2) echo "WRONG USAGE: the command or the runbook has to be corrected" ;;
  3) echo "BLOCKED: a guard-rail, a limit or another run stood in the way on some cluster" ;;
  4) echo "PARTLY: not everything was applied, or not everything could be read" ;;
  *) echo "ENDED BY CODE $code: by a second signal, or because memory ran out" ;;
esac
exit $code
"""


def runbook(name: str, *options: str) -> BashOperator:
    """Run a page of runbooks/ by the offsetbook command."""
    command = ["offsetbook", "run", name, *options]
    return BashOperator(
        task_id=name,
        bash_command=SCRIPT.format(command=shlex.join(command)),
        env=ENVIRONMENT,
        append_env=True,  # so that secrets of the worker reach ${env:NAME} in the fleet file
        cwd=WORK,
        skip_on_exit_code=[],
        do_xcom_push=False,
        **NEVER_AGAIN,
    )


with DAG("offsetbook_nightly", schedule="30 2 * * *", **ALWAYS):
    # Neither waits for the other to end well: one cluster that is down makes both end with 4.
    runbook("nightly-fleet-lag")
    runbook("expiry-watch")

with DAG("offsetbook_weekly", schedule="0 4 * * 0", **ALWAYS):
    # The clean-up relies on what the look has seen, and does not run where that has failed.
    runbook("weekly-unsubscribed-report") >> runbook("weekly-unsubscribed-cleanup")

with DAG("offsetbook_without_the_runner", schedule=None, **ALWAYS):
    # A notebook as it is, for looking only. A misspelt parameter is a warning and the default is
    # used; there are no limits, no result.json and no report, only the executed notebook; stopping
    # the task ends the kernel where it is. Airflow's worker needs a kernel by this name, made with
    # /opt/offsetbook/.venv/bin/python -m ipykernel install --user --name offsetbook
    PapermillOperator(
        task_id="find_unsubscribed_offsets",
        input_nb=f"{HOME}/notebooks/20_find_unsubscribed_offsets.ipynb",
        output_nb=WORK + "/runs/20_find_unsubscribed_offsets-{{ run_id }}.ipynb",
        parameters={"clusters": ["eu"], "fleet_file": ENVIRONMENT["OFFSETBOOK_FLEET"]},
        kernel_name="offsetbook",
        language_name="python",
        **NEVER_AGAIN,
    )
