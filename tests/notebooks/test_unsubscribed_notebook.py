"""What was left behind is deleted unattended, once enough runs of the notebook have seen it."""

from typing import Any

import pytest
from workspaces import NotebookOutcome, Workspace

from toolkit.model import GroupState, TopicPartition
from toolkit.storage.sightings import unsubscribed_since

STANDING = {"dry_run": False, "approve": "within limits", "reason": "weekly"}
LIMITS = ["max_groups=1", "max_partitions=1"]
DONE, BLOCKED = ("done", 0), ("blocked", 3)


class Leftover:
    """A live group that committed on a topic which it does not subscribe to."""

    def __init__(self, workspace: Workspace) -> None:
        """Make the topics and the group, and have it joined for the topic that it reads."""
        self.workspace = workspace
        apps = workspace.apps
        self.left = apps.create_topic(apps.name("left"), records=5)
        self.read = apps.create_topic(apps.name("read"), records=5)
        self.name = apps.name("<b>billing")
        apps.commit(self.name, {TopicPartition(t, 0): 3 for t in (self.left, self.read)})
        self.member = apps.join(self.name, [self.read])

    def subscribe(self, *topics: str) -> None:
        """Have the member read other topics, and wait until the broker shows it, settled."""
        self.member.subscribe(list(topics))

        def is_settled() -> bool:
            assigned = {p.topic for p in self.member.assignment()}
            if self.member.poll(0.1) is not None or assigned != set(topics):
                return False
            (group,) = self.workspace.operator.facts(self.name).groups
            return group.state is GroupState.STABLE and group.subscribed_topics == set(topics)

        self.workspace.apps.eventually(is_settled)

    @property
    def committed(self) -> set[str]:
        return {partition.topic for partition in self.workspace.operator.held(self.name)[self.name]}

    @property
    def seen(self) -> int:
        """How many runs in a row have seen its leftover, by the state folder."""
        cluster_id = self.workspace.operator.facts(self.name).cluster_id
        series = unsubscribed_since(self.workspace.operator.state, cluster_id)
        found = series.get((self.name, self.left))
        return found.seen if found else 0

    def run(self, **parameters: Any) -> NotebookOutcome:
        return self.workspace.cells("60_delete_offsets", groups=[self.name], **parameters)

    def clean_up(self, *limits: str, **parameters: Any) -> NotebookOutcome:
        """Run it as a schedule does, under a standing approval."""
        given = {"unsubscribed": True, **parameters}
        return self.run(**given, **STANDING, limits=[*LIMITS, *limits])


@pytest.fixture
def leftover(workspace: Workspace) -> Leftover:
    return Leftover(workspace)


def why(told: NotebookOutcome) -> str:
    """Return why a run was blocked with exit code 3, and not otherwise."""
    assert BLOCKED == told.ended
    return told.why


def test_limits_hold_until_enough_runs_have_seen_it(leftover: Leftover) -> None:
    """No run, one run, and a run after it was read again are too few; the second deletes it."""
    both = {leftover.left, leftover.read}
    twice = "unsubscribed_in_runs=2"

    # Where nobody has looked for leftovers, nothing is known of them.
    unknown = leftover.clean_up(twice, unsubscribed=False)
    assert "since when" in why(unknown)
    assert (both, 0) == (leftover.committed, leftover.seen)

    assert "unsubscribed in 1 run; the limit is 2" in why(leftover.clean_up(twice))
    assert (both, 1) == (leftover.committed, leftover.seen)

    leftover.subscribe(leftover.left, leftover.read)
    again = leftover.clean_up(twice)
    assert (DONE, {"findings": 0, "planned": 0, "changed": 0}) == (
        again.ended,
        again.conclusion.counts,
    )
    assert 0 == leftover.seen
    leftover.subscribe(leftover.read)

    assert "unsubscribed in 1 run; the limit is 2" in why(leftover.clean_up(twice))
    assert "unsubscribed_for_days is 1" in why(leftover.clean_up("unsubscribed_for_days=1"))
    assert (both, 2) == (leftover.committed, leftover.seen)

    done = leftover.clean_up(twice)

    assert (DONE, 1) == (done.ended, done.conclusion.counts["changed"])
    assert {leftover.read} == leftover.committed


def test_a_dry_run_records_sightings(leftover: Leftover) -> None:
    """Offsets that are too young stay out of the plan; the notebook says so and does not block."""
    young = leftover.run(unsubscribed=True, unsubscribed_for="14d", seen_in_runs=2)

    assert (DONE, {"findings": 1, "planned": 0, "changed": 0}) == (
        young.ended,
        young.conclusion.counts,
    )
    assert "required: unsubscribed for 14 d, in 2 runs" in young.shown
    assert leftover.name not in young.shown  # it is escaped
    assert 1 == leftover.seen

    seen = leftover.run(unsubscribed=True, seen_in_runs=2)

    assert (DONE, {"findings": 0, "planned": 1, "changed": 0}) == (
        seen.ended,
        seen.conclusion.counts,
    )
    assert "observed as unsubscribed in 2 runs since" in seen.shown
    assert ({leftover.left, leftover.read}, 2) == (leftover.committed, leftover.seen)


@pytest.mark.parametrize("given", [{"unsubscribed_for": "14d"}, {"seen_in_runs": 2}])
def test_a_condition_alone_is_a_mistake(workspace: Workspace, given: dict[str, Any]) -> None:
    """Without `unsubscribed` no run looks for what is left behind, and none is to seem to."""
    wrong = workspace.cells("60_delete_offsets", groups=["*"], **given)

    assert "failed" == wrong.ended[0]
    assert "a condition of unsubscribed" in wrong.why
    assert not list(workspace.operator.state.glob("sightings/*"))
