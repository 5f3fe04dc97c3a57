"""The cluster of a command, opened, its groups, and what a journey planned for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolkit.cli.options import CommandScope
from toolkit.cli.progress_line import ProgressLine
from toolkit.errors import UsageError
from toolkit.model.names import ExactName, named

if TYPE_CHECKING:
    from toolkit.journeys.change.decision import Decision
    from toolkit.journeys.change.planned_change import PlannedChange
    from toolkit.journeys.cluster_access import ClusterAccess
    from toolkit.model import Cluster
    from toolkit.plan import Outcome


CLUSTER_NEEDED = "add --cluster with one of"


@dataclass(frozen=True)
class ToolForm:
    """How the drop-in for Kafka's own tool shows a change."""

    write_table: Callable[[Outcome | None], None]  # what is planned (None), or what was done
    is_only_shown: bool  # neither --execute nor --dry-run was given, and there is no question


@dataclass(frozen=True)
class CommandPlan:
    """A planned change, and how the command shows and applies it."""

    change: PlannedChange
    # Applies it, writes the outcome and returns the exit code; None: as any other plan.
    carry_out: Callable[[Decision, CommandScope], int] | None = None
    overrides: tuple[str, ...] = ()  # rules that its own options override
    tool: ToolForm | None = None


@contextmanager
def opened(command: CommandScope, cluster: Cluster | str | None = None) -> Iterator[ClusterAccess]:
    """
    Open the cluster of the command, and show the progress of reads on a terminal.

    Raises UsageError if the command does not say which cluster.
    """
    from toolkit.journeys.cluster_access import ClusterAccess, find_cluster

    if cluster is None or isinstance(cluster, str):
        cluster = find_cluster(cluster or command.cluster, command.fleet, way_on=CLUSTER_NEEDED)
    with ProgressLine(cluster.name, visible=command.is_watched) as progress:
        yield ClusterAccess(cluster, fleet_file=command.fleet, on_progress=progress)


def required_groups(command: CommandScope) -> tuple[str, ...]:
    if not command.groups:
        raise UsageError("no group is named", hint="--group NAME, or --group '*' for all")
    return command.groups


def only_group(groups: Sequence[str]) -> str:
    """Return the one name of some, which may be in quotes as tables show it; UsageError."""
    if len(set(groups)) != 1:
        hint = "--group NAME, one call for each group"
        raise UsageError("this command is about exactly one group", hint=hint)
    return ExactName(named(groups[0]))
