"""What an operator does in the benchmark `live`: calls of the toolkit, and when they returned."""

import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from toolkit.journeys.change.planned_change import PlannedChange
from toolkit.kafka_io.read_plan_facts import read_plan_facts
from toolkit.model import Cluster, GroupState, Snapshot, TopicPartition
from toolkit.operate.hold_facts import sample_hold_facts
from toolkit.operate.move import move
from toolkit.plan import Outcome
from toolkit.plan.approvals import Approval
from toolkit.planning.changes.move import MoveRequest, plan_move
from toolkit.planning.changes.targets import ShiftBy
from toolkit.planning.holds.hold_context import HoldContext
from toolkit.planning.holds.hold_costs import costs
from toolkit.planning.selection.partition_selection import scopes_of
from toolkit.planning.selection.snapshot_index import SnapshotIndex
from toolkit.session import Session
from toolkit.storage.hold_files import hold_path, read_hold
from toolkit.storage.undo_records import read_undo_record

PATIENCE_S = 120
REASON = "benchmark"


@dataclass(frozen=True, slots=True)
class Done:
    """When a call was made and when it returned; `offsets` are where the group stood then."""

    began: float
    ended: float
    offsets: dict[TopicPartition, int]


class Operator:
    """Pauses, resumes and moves partitions of one group."""

    def __init__(self, address: str, group: str, *topics: str) -> None:
        """Work with the records in the folder that is set for this process."""
        self.cluster = Cluster("live", address)
        self.session = Session(self.cluster)
        self.group, self.topics, self.state = group, topics, self.session.state

    def facts(self) -> Snapshot:
        with self.session.connections.in_use():  # as one operator's calls
            return read_plan_facts(self.cluster, groups=[self.group], topics=self.topics)

    def when_stable(self) -> Snapshot:
        """Wait until the group has come to rest, and return the facts."""
        give_up_at = time.monotonic() + PATIENCE_S
        while True:
            facts = self.facts()
            if all(group.state is GroupState.STABLE for group in facts.groups):
                return facts
            if time.monotonic() > give_up_at:
                raise TimeoutError(f"{self.group} is not Stable after {PATIENCE_S} s")
            time.sleep(0.2)

    def announced_repeats(self, partitions: Collection[TopicPartition]) -> int | None:
        """Return how many records the plan of a pause says may come twice."""
        beside = sample_hold_facts(self.cluster, self.group)
        facts = self.when_stable()
        wanted = tuple(sorted(partitions))
        case = HoldContext(SnapshotIndex(facts), facts.groups[0], wanted, hold_facts=beside)
        return costs(case, case.recipe).repeats if case.recipe else None

    def pause(self, partitions: Collection[TopicPartition]) -> Done:
        self.when_stable()
        began = time.time()
        return self._done(self._apply(self.planned_pause(partitions)), began, {})

    def planned_pause(self, partitions: Collection[TopicPartition]) -> PlannedChange:
        return self.session.pause(self.group, _words(partitions))

    def resume(self, partitions: Collection[TopicPartition]) -> Done:
        """Resume partitions; `offsets` are where they stood while they were paused."""
        offsets = {TopicPartition(c.topic, c.partition): c.offset for c in self.facts().commits}
        began = time.time()
        outcome = self._apply(self.session.resume(self.group, _words(partitions)))
        return self._done(outcome, began, offsets)

    def move(self, partitions: Collection[TopicPartition], by: int) -> Done:
        """Move partitions; the time begins with the approval, `offsets` are the new ones."""
        request = MoveRequest(ShiftBy(by), self.group, tuple(_words(partitions)))
        planned = plan_move(self.when_stable(), request)
        approval = Approval(planned.plan.fingerprint, REASON)
        began = time.time()
        with self.session.connections.in_use():
            outcome = move(planned, self.cluster, approval, state=self.state).outcome
        done = self._done(outcome, began, {})
        moved = read_undo_record(self.state, outcome.run_id)
        to = {c.partition: c.after.offset for _, c in moved.changes if c.after}
        return replace(done, offsets=to)

    def _apply(self, change: PlannedChange) -> Outcome | None:
        approved = {"dry_run": False, "approve": change.fingerprint, "reason": REASON}
        return change.decide(**approved).apply().outcome

    def _done(
        self, outcome: Outcome | None, began: float, offsets: dict[TopicPartition, int]
    ) -> Done:
        ended = time.time()
        if outcome is None or not outcome.is_done:
            raise RuntimeError(f"{self.group}: {outcome}")
        return Done(began, ended, offsets)

    def keeper_mib(self) -> float:
        """Return the most memory that the process that holds has used so far."""
        record = read_hold(hold_path(self.state, self.facts().cluster_id, self.group))
        if record is None:
            raise RuntimeError(f"{self.group}: nothing is recorded as held")
        status = Path(f"/proc/{record.pid}/status")
        if status.exists():
            words = status.read_text("ascii").split()
            return int(words[words.index("VmHWM:") + 1]) / 2**10
        return float(psutil.Process(record.pid).memory_info().rss / 2**20)


def _words(partitions: Collection[TopicPartition]) -> list[str]:
    return [str(scope) for scope in scopes_of(partitions)]
