"""
Resetting many idle groups: offsetbook beside `kafka-consumer-groups`, on one real broker.

Starts its own broker, fills it, and in turns resets every group to another offset, each time in a
fresh process; after each run all committed offsets are read back and must be where they should be:

    tool      kafka-consumer-groups --reset-offsets --all-groups --to-offset N --execute
    command   offsetbook consumer-groups with the same flags, and its overrides
    apply     `apply_plan` alone, of a plan that was made before

The tool writes. The other two look again, save what was there, record, write, read back and record.
"""

import argparse
import itertools
import sys
from functools import partial
from pathlib import Path

from measuring import groups_parser, in_turns, parse_options
from snapshot import Case, Run, filled_broker, run_once, surroundings, table, tool_command

from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Cluster

OFFSETS = (1, 3, 2)  # every run moves every offset, which is at another one of these
# The last one: the benchmark itself has just committed, and nobody else does.
OVERRIDES = (
    *("skips-unread-records", "too-many-groups", "too-many-partitions", "keeps-committing"),
)
# Prints what applying took, apart from starting Python, importing, reading and planning.
APPLY = """
import json, sys, time
from pathlib import Path
from toolkit.kafka_io.read_plan_facts import read_plan_facts
from toolkit.model import Cluster
from toolkit.operate.apply import apply_plan
from toolkit.plan.approvals import Approval
from toolkit.planning.changes.reset import plan_reset
from toolkit.planning.changes.targets import ToOffset
address, offset, state, *overrides = sys.argv[1:]
cluster = Cluster("benchmark", address)
facts = read_plan_facts(cluster, groups=["*"])
target = ToOffset(int(offset))
plan = plan_reset(facts, target, groups=["*"])
approval = Approval(plan.fingerprint, "benchmark", overrides)
began, cpu = time.perf_counter(), time.process_time()
outcome = apply_plan(plan, cluster, approval, state=Path(state)).outcome
took = {"wall_s": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}
assert outcome.is_done, outcome
print(json.dumps(took))
"""


def main() -> None:
    options = _options()
    with filled_broker(options) as (address, fleet, output):
        offsets = itertools.cycle(OFFSETS)

        def reset(way: Case) -> Run:
            offset = next(offsets)
            command = [word.replace("OFFSET", str(offset)) for word in way.command]
            run = run_once(way._replace(command=command), output)
            _check(address, offset, options)
            return run

        ways = {way.name: partial(reset, way) for way in _ways(address, fleet)}
        runs = in_turns(ways, options.rounds, Run.told)
    found = f"{options.groups * options.commits:,} offsets were moved and read back in every run"
    print("\n".join([*surroundings(options, found), "", *table(runs)]))


def _check(address: str, offset: int, options: argparse.Namespace) -> None:
    commits = read_snapshot(Cluster("benchmark", address)).commits
    if [offset] * (options.groups * options.commits) != [commit.offset for commit in commits]:
        sys.exit(f"not every committed offset is {offset}")


def _ways(address: str, fleet: Path) -> list[Case]:
    """Return the ways to reset every group, with OFFSET where the offset goes."""
    flags = ["--reset-offsets", "--all-groups", "--all-topics", "--to-offset", "OFFSET"]
    ours = [str(Path(sys.executable).parent / "offsetbook"), "consumer-groups"]
    ours += ["--fleet", str(fleet), *flags, "--execute", "--reason", "benchmark"]
    for rule in OVERRIDES:
        ours += ["--override", rule]
    state = str(fleet.parent / "alone")
    alone = [sys.executable, "-c", APPLY, address, "OFFSET", state, *OVERRIDES]
    return [
        Case("tool", tool_command(address, *flags, "--execute")),
        Case("command", ours),
        Case("apply", alone, times_itself=True),
    ]


def _options() -> argparse.Namespace:
    return parse_options(groups_parser(__doc__, 1000), groups=10, commits=2, rounds=1)


if __name__ == "__main__":
    main()
