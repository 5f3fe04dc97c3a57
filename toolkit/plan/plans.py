"""A plan, and the fingerprint by which it is approved."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from toolkit.plan.actions import ON_LIVE_GROUPS, Change, Intent, Position, Step
from toolkit.plan.findings import Finding

NEW_TOPICS = "new-topics"  # commits on topics that the group never committed
NEW_GROUP = "new-group"  # a group that does not exist is made


@dataclass(frozen=True, slots=True)
class Plan:
    """
    Steps for one cluster, in the order in which they are to be carried out.

    `request` says in words what was asked for. `allows` names what was explicitly asked for beyond
    the ordinary (`NEW_TOPICS`, `NEW_GROUP`). `findings` are those of the planning itself;
    guard-rails add theirs when the plan is checked. `topic_ids` tells which topics
    those of its changes were: one that is deleted and made anew keeps only its name.
    """

    intent: Intent
    request: str
    cluster: str
    cluster_id: str
    made_at: datetime
    steps: tuple[Step, ...]
    findings: tuple[Finding, ...] = ()
    allows: frozenset[str] = frozenset()
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    # What a plan for a live group is approved as, where its positions move on: how and how long.
    terms: Mapping[str, str] = field(default_factory=dict)

    @property
    def changes(self) -> Iterator[tuple[Step, Change]]:
        """Every change with its step."""
        return ((step, change) for step in self.steps for change in step.changes)

    @property
    def group_ids(self) -> tuple[str, ...]:
        """Every group that is changed, each once, in order."""
        return tuple(dict.fromkeys(step.group_id for step in self.steps))

    @property
    def fingerprint(self) -> str:
        """
        What an approval names: 16 hexadecimal digits over what would be done, and where.

        What stood in the way is part of it, so that an approval is of that too. When it was
        planned and reasons are left out: the same changes of the same facts have the same one.
        """
        # Sorted, because what a set gives back is in another order in every process.
        about = {(f.rule, f.group_id, f.topic, f.partition) for f in self.findings if f.blocks}
        scope = (
            *(self.cluster_id, self.intent, sorted(self.allows)),
            *(sorted(map(json.dumps, about)), sorted(self.topic_ids.items())),
            *([sorted(self.terms.items())] if self.terms else []),
        )
        digest = hashlib.sha256(json.dumps(scope).encode())
        for step in self.steps:
            # A live group moves on while its plan is looked at; what is approved is the request.
            state = None if step.action in ON_LIVE_GROUPS else step.state
            head = (step.group_id, step.action, step.type, state, step.needs)
            changes = [
                (*c.partition,) if self.terms else (*c.partition, _bare(c.before), _bare(c.after))
                for c in step.changes
            ]
            digest.update(json.dumps((head, changes)).encode())
        return digest.hexdigest()[:16]


def _bare(position: Position | None) -> tuple[int, int | None, str] | None:
    return None if position is None else (position.offset, position.leader_epoch, position.metadata)
