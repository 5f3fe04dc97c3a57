"""
Print what became of fault runs: a table of works, and one of faults.

    python tests/faults/fault_table.py LOG

LOG is what `--fault-log` has made. A run whose claims did not hold is not in it: its test failed.
A fault that was to come after the work was done is counted, though it never came.
"""

import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any


def main(path: str) -> None:
    runs = [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]
    sys.stdout.write(f"{len(runs)} runs\n\n")
    by_work: dict[str, list[dict[str, Any]]] = defaultdict(list)
    by_fault: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for run in runs:
        by_work[f"{run['work']} {run['group']}".strip()].append(run)
        for fault in {*run["faults"]}:
            by_fault[fault].append(run)
    for title, found in (("what is done", by_work), ("what breaks", by_fault)):
        sys.stdout.write(f"| {title} | runs | outcomes | longest, s |\n|---|---|---|---|\n")
        for name, some in sorted(found.items()):
            outcomes = Counter(run["outcome"] for run in some).most_common()
            told = ", ".join(f"{count} {outcome}" for outcome, count in outcomes)
            longest = max(run["took_s"] for run in some)
            sys.stdout.write(f"| {name} | {len(some)} | {told} | {longest} |\n")
        sys.stdout.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
