"""
One run of a runbook, in a process of its own: `python -m toolkit.runbooks.run_process`.

It reads its order as one line of JSON and then keeps reading: when its parent process has ended,
however that ended, it reads the end of the stream, and stops as after SIGTERM. It reports its steps
and its end as lines of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from toolkit.errors import ToolkitError
from toolkit.runner.parameters import path_in
from toolkit.runner.run_notebook import RunTerms, run_notebook
from toolkit.runner.time_limits import TimeLimits
from toolkit.storage.state_folder import Operator, locked_run, state_dir


@dataclass(frozen=True, slots=True)
class RunOrder:
    """What to run: everything that the process needs."""

    runbook: str
    notebook: str
    clusters: Sequence[str]
    parameters: Mapping[str, object]
    output_dir: str
    times: TimeLimits

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Self:
        content: dict[str, Any] = json.loads(line)
        return cls(**{**content, "times": TimeLimits(**content["times"])})


def main() -> int:
    """Run what is ordered on stdin; the exit code is that of the run."""
    order = RunOrder.from_json(sys.stdin.readline())
    threading.Thread(target=_stop_when_alone, daemon=True).start()
    try:
        return _run(order)
    except ToolkitError as exc:
        _tell(error={"problem": exc.problem, "hint": exc.hint, "exit_code": exc.exit_code})
        return exc.exit_code


def _run(order: RunOrder) -> int:
    who = Operator.here().who
    with ExitStack() as locks:
        state = path_in(order.parameters, "state")
        state = state or state_dir(path_in(order.parameters, "fleet_file"))
        # In one order, so that two that want several clusters each do not take half of them.
        for cluster in sorted(order.clusters) or [""]:
            locks.enter_context(locked_run(state, order.runbook, cluster, who))
        result = run_notebook(
            Path(order.notebook),
            parameters=order.parameters,
            output_dir=Path(order.output_dir),
            on_step=lambda step: _tell(step=asdict(step)),
            terms=RunTerms(order.runbook, order.times),
        )
    _tell(result=result.as_dict())
    return result.exit_code


def _stop_when_alone() -> None:
    while sys.stdin.readline():
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    # No second signal will come if a kernel ignores the first.
    time.sleep(TimeLimits().grace_s)
    os.kill(os.getpid(), signal.SIGTERM)


def _tell(**event: object) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
