"""Plans and their fingerprints."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from toolkit.plan.actions import ON_LIVE_GROUPS, Change, Intent, Step
from toolkit.plan.findings import Finding

NEW_TOPICS = "new-topics"  # commits for topics that the group has never committed
NEW_GROUP = "new-group"  # a missing group is created
OFFSETS = "offsets"  # the term of a move to offsets that its request names
FINGERPRINT_DIGITS = 32  # 128 bits: nobody finds another plan with the same


@dataclass(frozen=True, slots=True)
class Plan:
    """
    Steps for one cluster, in order.

    `request` is the request as text. `allows` lists explicit permissions (`NEW_TOPICS`,
    `NEW_GROUP`). `findings` are those of the planner; guard rails add theirs when the plan is
    checked. `topic_ids` are the ids of its topics, which change if a topic is re-created.
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
    # Terms that are approved for a live group, whose positions advance: mode and duration.
    terms: Mapping[str, str] = field(default_factory=dict)
    _fingerprint: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def changes(self) -> Iterator[tuple[Step, Change]]:
        """Every change with its step."""
        return ((step, change) for step in self.steps for change in step.changes)

    @property
    def group_ids(self) -> tuple[str, ...]:
        """Every changed group, once, in order."""
        return tuple(dict.fromkeys(step.group_id for step in self.steps))

    @property
    def fingerprint(self) -> str:
        """
        Fingerprint: 32 hexadecimal digits, in groups of four, over the request and its changes.

        It covers what a reviewer relies on: request, cluster id, changes and blocking findings.
        Planning time, reasons and the cluster's name, which each fleet file chooses, are excluded:
        the same changes, planned again, have the same fingerprint. Of a live group, whose offsets
        advance, it covers those that the request names.
        """
        if not self._fingerprint:  # computed once: a plan does not change
            self._fingerprint.append(self._compute_fingerprint())
        return self._fingerprint[0]

    def _compute_fingerprint(self) -> str:
        # Sorted, because set order differs between processes.
        about = {(f.rule, f.group_id, f.topic, f.partition) for f in self.findings if f.blocks}
        scope = (
            *(self.cluster_id, self.intent, self.request, sorted(self.allows)),
            *(sorted(map(json.dumps, about)), sorted(self.topic_ids.items())),
            *([sorted(self.terms.items())] if self.terms else []),
        )
        digest = hashlib.sha256(json.dumps(scope).encode())
        for step in self.steps:
            # A live group advances during the review; the approval covers the request.
            state = None if step.action in ON_LIVE_GROUPS else step.state
            head = (step.group_id, step.action, step.type, state, step.needs_text)
            # Partitions and positions are tuples, which JSON writes as lists.
            changes = self._approved(step.changes)
            digest.update(json.dumps((head, changes)).encode())
        digits = digest.hexdigest()[:FINGERPRINT_DIGITS]
        return "-".join(digits[place : place + 4] for place in range(0, len(digits), 4))

    def _approved(self, changes: Sequence[Change]) -> list[tuple[object, ...]]:
        if not self.terms:
            return [(place[0], place[1], before, after) for place, before, after, _ in changes]
        if OFFSETS in self.terms:
            return [(*change.partition, change.after) for change in changes]
        return [(*change.partition,) for change in changes]


def same_fingerprint(one: str, other: str) -> bool:
    """Return whether two texts are the same fingerprint, however its digits are separated."""
    return _digits(one) == _digits(other)


def _digits(fingerprint: str) -> str:
    return re.sub(r"[\s:-]", "", fingerprint).lower()
