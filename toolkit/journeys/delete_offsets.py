"""Delete committed offsets (KIP-496): chosen ones, or all unsubscribed ones of live groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from toolkit.errors import UsageError
from toolkit.journeys.change.change_facts import read_facts
from toolkit.journeys.change.group_choice import GroupChoice
from toolkit.journeys.change.planned_change import PlannedChange
from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.model.times import parse_duration
from toolkit.planning.changes.delete_offsets import plan_delete_offsets, plan_delete_unsubscribed
from toolkit.planning.unsubscribed.unsubscribed_offsets import unsubscribed_topics_by_group
from toolkit.report.run_command import NotebookCall
from toolkit.storage.sightings import record_unsubscribed, unsubscribed_since

NOTEBOOK = "60_delete_offsets"


@dataclass(frozen=True, slots=True)
class OffsetChoice:
    """
    Which committed offsets of groups are deleted.

    `topics` are scopes (`TOPIC` or `TOPIC:0,1`), `all_topics` means all that an idle group
    committed, `unsubscribed` all unsubscribed offsets of live groups; of these only what was seen
    so for `unsubscribed_for` ("14d") and by `seen_in_runs` runs in a row. Without any of the three,
    the unsubscribed offsets of groups that must all be live. Raises UsageError for two of them, for
    conditions without `unsubscribed`, and for a negative number of runs.
    """

    topics: Sequence[str] = ()
    all_topics: bool = False
    unsubscribed: bool = False
    unsubscribed_for: str = ""
    seen_in_runs: int = 0

    def __post_init__(self) -> None:
        if bool(self.topics) + self.all_topics + self.unsubscribed > 1:
            hint = "give one of them"
            raise UsageError("topics, all-topics and unsubscribed exclude each other", hint=hint)
        if (self.unsubscribed_for or self.seen_in_runs) and not self.unsubscribed:
            raise UsageError(
                "how long or how often offsets were seen unsubscribed is a condition of "
                "unsubscribed",
                hint="ask for unsubscribed, or leave the condition out",
            )
        if self.seen_in_runs < 0:
            raise UsageError(f"seen_in_runs is {self.seen_in_runs}", hint="use 0 or more runs")


def delete_offsets(
    access: ClusterAccess,
    groups: Sequence[str] | GroupChoice,
    which: OffsetChoice | None = None,
) -> PlannedChange:
    """
    Plan to delete committed offsets of groups, by names and shell patterns.

    With `unsubscribed`, what is unsubscribed now is recorded in the state directory first. Raises
    UsageError, ClusterUnreachable, and StateFileError if nothing can be recorded.
    """
    which = which or OffsetChoice()
    choice = GroupChoice.of(groups)
    length = parse_duration(which.unsubscribed_for) if which.unsubscribed_for else None
    facts = read_facts(access, choice.names, topics=which.topics)
    chosen = choice.narrow(facts)
    if which.unsubscribed:
        record_unsubscribed(access.state, facts, unsubscribed_topics_by_group(facts))
        plan = plan_delete_unsubscribed(
            chosen.facts,
            groups=chosen.names,
            left_for=length,
            in_runs=which.seen_in_runs,
            sightings=unsubscribed_since(access.state, facts.cluster_id),
        )
    else:
        plan = plan_delete_offsets(
            chosen.facts, groups=chosen.names, topics=which.topics, all_topics=which.all_topics
        )
    parameters = {name: value or "" for name, value in asdict(which).items()}
    call = NotebookCall(NOTEBOOK, {"groups": choice.names, **parameters})
    return PlannedChange(access=access, plan=plan, facts=chosen.facts, call=call)
