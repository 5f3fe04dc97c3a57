"""
An operator's process: apply a plan file, and after each step wait for a line on standard input.

    python apply_by_steps.py BOOTSTRAP_SERVERS PLAN_FILE STATE_FOLDER

Says on standard output what it did: a line for each step, then how it ended.
"""

import signal
import sys
from datetime import timedelta
from pathlib import Path

from toolkit.errors import ToolkitError
from toolkit.model import Cluster
from toolkit.operate.apply import apply_plan
from toolkit.plan import StepOutcome
from toolkit.plan.approvals import Approval
from toolkit.storage.plan_files import read_plan


def on_step(outcome: StepOutcome) -> None:
    """Say what became of a step, and wait to be told to go on; nobody tells at the end of input."""
    sys.stdout.write(f"{outcome.group_id}: {outcome.status}\n")
    sys.stdout.flush()
    sys.stdin.readline()


def main(servers: str, plan_file: str, state: str) -> int:
    plan = read_plan(Path(plan_file))
    approval = Approval(
        plan.fingerprint, "a test", ["too-many-groups"], watch=timedelta(milliseconds=50)
    )
    cluster = Cluster(plan.cluster, servers)
    try:
        applied = apply_plan(plan, cluster, approval, state=Path(state), on_step=on_step)
    except ToolkitError as exc:
        sys.stdout.write(f"{type(exc).__name__}: {exc}\n")
        return exc.exit_code
    for handle in applied.handles:
        handle.detach()
    outcome = applied.outcome
    sys.stdout.write(f"{outcome.summary}; {outcome.interrupted}\n")
    return 0 if outcome.is_done else 4


if __name__ == "__main__":
    # A shell has what it runs in the background ignore Ctrl-C, and so would we.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main(*sys.argv[1:]))
