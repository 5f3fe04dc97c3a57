"""
Whole commands beside Kafka's own tool, on one real broker.

Starts its own broker, fills it as `snapshot.py` does, and runs each command in turns, each run in a
fresh process. Where `kafka-consumer-groups` answers the same, it runs in the same rounds.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from measuring import groups_parser, markdown, parse_options
from snapshot import Case, Run, filled_broker, measure_in_turns, surroundings, tool_command

ONE = "group-00001"
ALSO_RUN = (("--groups", "65000", "--large"),)


class Pair(NamedTuple):
    """A command, and what the tool is asked for the same; () where it has no answer."""

    command: Sequence[str]
    tool: Sequence[str] = ()

    @property
    def name(self) -> str:
        return " ".join(self.command)


DESCRIBE = ("--describe", "--all-groups")
PAIRS = (
    Pair(("lag", "--by", "partition", "--output", "csv"), DESCRIBE),
    Pair(("lag",), DESCRIBE),
    Pair(("health",)),
    Pair(("groups", "list"), ("--list",)),
    Pair(("unsubscribed",)),
    Pair(("lag", "--group", ONE), ("--describe", "--group", ONE)),
    Pair(("groups", "describe", ONE), ("--describe", "--group", ONE)),
    Pair(("paused-partitions",)),
    Pair(("clusters",)),
    Pair(("fleet", "list")),
    Pair(("audit", "list")),
    Pair(("--help",)),
)
LARGE = (
    Pair(("groups", "list", "--output", "csv")),
    Pair(("lag", "--by", "partition", "--output", "csv")),
    Pair(("unsubscribed",)),
)


def main() -> None:
    options = _options()
    chosen = LARGE if options.large else PAIRS
    pairs = [pair for pair in chosen if pair.name.startswith(options.only)]
    with filled_broker(options) as (address, fleet, output):
        cases = list(_cases(pairs, address, fleet))
        runs = measure_in_turns(cases, options.rounds, output, warm_up=1)  # compiles modules
    print("\n".join([*surroundings(options, "whole commands"), "", *_table(pairs, runs)]))


def _cases(pairs: Sequence[Pair], address: str, fleet: Path) -> Iterator[Case]:
    offsetbook = str(Path(sys.executable).parent / "offsetbook")
    asked = set()
    for pair in pairs:
        fleet_option = [] if pair.name == "--help" else ["--fleet", str(fleet)]
        yield Case(pair.name, [offsetbook, *pair.command, *fleet_option])
        if pair.tool and pair.tool not in asked:
            asked.add(pair.tool)
            yield Case(f"tool {' '.join(pair.tool)}", tool_command(address, *pair.tool))


def _table(pairs: Sequence[Pair], runs: dict[str, list[Run]]) -> Iterator[str]:
    rows = []
    for pair in pairs:
        mine = _middle(runs[pair.name])
        cells = [pair.name, *_cells(mine)]
        if pair.tool:
            its = _middle(runs[f"tool {' '.join(pair.tool)}"])
            cells += [", ".join(_cells(its)), f"{its.wall_s / mine.wall_s:.1f} times faster"]
        else:
            cells += ["–", ""]
        rows.append(cells)
    heading = ("command", "wall s", "CPU s", "peak RSS MiB", "tool: wall s, CPU s, MiB", "")
    return markdown(heading, rows)


def _middle(runs: Sequence[Run]) -> Run:
    return Run(*(median(values) for values in zip(*runs, strict=True)))


def _cells(run: Run) -> tuple[str, str, str]:
    return f"{run.wall_s:.2f}", f"{run.cpu_s:.2f}", f"{run.peak_mib:.0f}"


def _options() -> argparse.Namespace:
    parser = groups_parser(__doc__)
    parser.add_argument("--large", action="store_true", help="only what many groups make slow")
    parser.add_argument("--only", default="", help="only commands that begin with this")
    return parse_options(parser, groups=10, commits=2, rounds=1)


if __name__ == "__main__":
    main()
