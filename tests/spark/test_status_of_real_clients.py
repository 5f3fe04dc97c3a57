"""The words that the fleet job finds for groups whose behaviour is known, because it is made."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import NamedTuple

import pandas as pd
import pytest
from applications import Applications
from brokers import until_ready
from example_groups import ExampleGroups
from fleet_tasks import blocks_of, judged, tasks_of

from toolkit.model import Cluster
from toolkit.planning.lag.status_rules import StatusRules
from toolkit.sandbox.broker import start_broker
from toolkit.spark.arrow import as_frame
from toolkit.spark.catch_up import read_newest
from toolkit.spark.judge import EvaluationRules

pytestmark = [pytest.mark.live("consumers run"), pytest.mark.starts("a broker")]

# A member commits each second, and the log keeps sixteen of its commits.
OF_GROUP = {"STOP": "ERR", "STALL": "ERR", "REWIND": "ERR"}  # as in Burrow
RULES = StatusRules(window_s=20, patience_s=6, tolerance=0.2)
SILENT_S, SERIES, LOOKS = 10, 16, 5
# Members that are not stepped for longer, or whose commits take longer, do something else than they
# are to do: each commits every second.
PAUSE_S, PATIENCE_S = 2.5, 600
STANDING = {"stalled", "hung", "stopped", "simple"}


class Expected(NamedTuple):
    """What is published of one behaviour, and what Burrow was measured to say of it."""

    status: str
    member_state: str | None
    trend: str | None  # "": not asked
    burrow: str


ALIVE, SILENT, IDLE, GONE = "alive and committing", "alive and silent", "alive and idle", "gone"
EXPECTED = {
    "fast": Expected("OK", ALIVE, "", "OK"),
    "slow": Expected("WARN", ALIVE, "falling behind", "OK"),
    "constant": Expected("OK", ALIVE, "", "OK"),
    "stalled": Expected("STALL", ALIVE, "falling behind", "STALL"),
    "hung": Expected("STOP", SILENT, "", "STOP"),
    "stopped": Expected("STOP", GONE, "", "STOP"),
    "rewound": Expected("REWIND", ALIVE, "falling behind", "OK, REWIND for 15 commits"),
    "unsubscribed": Expected("UNSUBSCRIBED", None, None, "STOP"),
    "idle": Expected("OK", IDLE, "", "OK"),
    "simple": Expected("STOP", None, "", "STOP"),
    "beyond": Expected("ERR", None, "", "OK"),
    "lost": Expected("ERR", None, "", "not measured"),
}
BY_ADMIN = ("simple", "beyond", "lost")  # which have no members
TRUE_TOPIC = {"unsubscribed": "left", "idle": "quiet", "beyond": "quiet", "lost": "cut"}


class Acting(NamedTuple):
    """One group, of which behaviour, and the topic that tells."""

    behaviour: str
    protocol: str
    topic: str


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Return a cluster of these groups alone, on which nobody else deletes or holds up anything."""
    broker = start_broker(tmp_path_factory.mktemp("stage"))
    try:
        until_ready(broker.address)
        yield Cluster("stage", broker.address)
    finally:
        broker.stop()


@pytest.fixture(scope="module")
def acting(
    stage: Cluster, applications_until: Callable[[Cluster, ExitStack], Applications]
) -> Iterator[tuple[ExampleGroups, dict[str, Acting]]]:
    """Return the groups, which act while the tests run."""
    with ExitStack() as ending:
        example_groups = ExampleGroups(applications_until(stage, ending))
        groups = {}
        for behaviour in (*EXPECTED, "deleted"):
            for protocol in ("classic",) if behaviour in BY_ADMIN else ("classic", "consumer"):
                name = example_groups.apps.name(f"{behaviour}-{protocol}")
                topic = getattr(example_groups, TRUE_TOPIC.get(behaviour, "stream"))
                groups[name] = Acting(behaviour, protocol, topic)
                example_groups.add(behaviour, name, protocol)
        example_groups.start()
        ending.callback(example_groups.stop)
        yield example_groups, groups


def shows(group: Acting, commits: pd.DataFrame) -> bool:
    """Say whether the log shows that the group does what it is to do."""
    if group.behaviour == "deleted":
        return True  # what counts is that nothing is left
    if commits.empty:
        return False
    (commit,) = commits.itertuples()
    silent_s = (datetime.now(UTC) - commit.committed_at).total_seconds()
    offsets = list(commit.recent_offset)
    if group.behaviour in {"fast", "slow", "constant"}:
        return len(offsets) == SERIES and offsets == sorted(offsets) and offsets[0] < offsets[-1]
    if group.behaviour == "stalled":
        return len(offsets) == SERIES and offsets[0] == offsets[-1]
    if group.behaviour == "rewound":
        # The drop is so long ago that the series does not show it any more.
        return offsets[0] < offsets[-1] < commit.max_committed and len(offsets) == SERIES == len(
            [one for one in offsets if one < commit.max_committed]
        )
    return silent_s > SILENT_S


def not_shown(
    cluster: Cluster, example_groups: ExampleGroups, groups: dict[str, Acting]
) -> list[str]:
    """Return the groups of which the log does not show yet that they do what they are to do."""
    example_groups.check()
    newest = read_newest(cluster, blocks_of(tasks_of(cluster)))
    if newest.problems:
        return list(groups)  # the broker has only just begun to make its offsets topic
    commits = as_frame(newest.commits)
    rows = {
        name: commits[(commits["group"] == name) & (commits["topic"] == group.topic)]
        for name, group in groups.items()
    }
    deleted = {name for name, group in groups.items() if group.behaviour == "deleted"}
    alive = {name for name in groups.keys() - deleted if shows(groups[name], rows[name])}
    return sorted(groups.keys() - alive - (deleted & example_groups.deleted))


def wait_until_shown(
    cluster: Cluster, example_groups: ExampleGroups, groups: dict[str, Acting]
) -> None:
    """Wait until all groups do what they are to do."""
    give_up_at = time.monotonic() + PATIENCE_S
    while late := not_shown(cluster, example_groups, groups):
        assert time.monotonic() < give_up_at, f"not shown after {PATIENCE_S} s: {late}"
        time.sleep(1)  # reading at full speed would keep the members from theirs


def compared(
    partitions: pd.DataFrame, groups: dict[str, Acting], true_lag: dict[tuple[str, str], int]
) -> pd.DataFrame:
    """Return a line for each group: what it does, its true lag, what is published, and Burrow's."""
    mine = partitions[partitions["group"].isin(list(groups))]
    by_place = {(row.group, row.topic): row for row in mine.itertuples()}
    lines = []
    for name, group in groups.items():
        if group.behaviour == "deleted":
            continue
        row, expected = by_place[name, group.topic], EXPECTED[group.behaviour]
        words = tuple(
            None if pd.isna(word) else word for word in (row.status, row.member_state, row.trend)
        )
        right = words[:2] == expected[:2] and expected.trend in {"", words[2]}
        lag = true_lag[name, group.topic]
        said = (row.lag, *words, row.status_why, expected.burrow)
        lines.append((group.behaviour, group.protocol, lag, *said, right))
    columns = ["behaviour", "protocol", "true lag", "lag", "status", "member", "trend", "why"]
    return pd.DataFrame(lines, columns=[*columns, "Burrow", "right"])


def look_at(
    look: Callable[[], pd.DataFrame], example_groups: ExampleGroups, groups: dict[str, Acting]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """
    Look until all words are right, some times at most; return what was found, compared.

    A look does not count for which a busy machine kept the members from their steps.
    """
    give_up_at, counted = time.monotonic() + PATIENCE_S, 0
    while True:
        began = time.monotonic()
        true_lag = example_groups.lag_by_admin(groups)
        partitions = look()
        table = compared(partitions, groups, true_lag)
        now = time.monotonic()
        before_s = now - began + 2 * RULES.window_s
        counted += example_groups.longest_pause_s(within_s=before_s) <= PAUSE_S
        if table["right"].all() or counted == LOOKS or now > give_up_at:
            return partitions, table
        example_groups.check()
        time.sleep(1)  # reading at full speed would keep the members from theirs


def check(partitions: pd.DataFrame, table: pd.DataFrame, deleted: set[str]) -> None:
    """Check words and lag, and that a deleted group has left nothing."""
    assert table["right"].all(), f"\n{in_words(table)}"
    assert not set(partitions["group"]) & deleted
    standing = table[table["behaviour"].isin(STANDING)]
    # The log end was read after the Admin client read it, and the log only grows.
    assert (standing["lag"] >= standing["true lag"]).all()


def in_words(table: pd.DataFrame) -> str:
    return table.to_string(index=False, max_colwidth=90)


def test_each_behaviour_has_its_word(
    stage: Cluster,
    acting: tuple[ExampleGroups, dict[str, Acting]],
    record_property: Callable[[str, object], None],
) -> None:
    """
    Twelve behaviours of real members have their words, and a deleted group has no row at all.

    Members are librdkafka's, of classic and of KIP-848 groups; simple groups are an admin client's.
    The word of a group is that of its worst partition.
    """
    example_groups, groups = acting
    wait_until_shown(stage, example_groups, groups)
    found: dict[str, pd.DataFrame] = {}

    def look() -> pd.DataFrame:
        now = datetime.now(UTC)
        found.update(
            judged(stage, blocks_of(tasks_of(stage)), EvaluationRules(RULES, now, 30, now))
        )
        return found["partitions"]

    partitions, table = look_at(look, example_groups, groups)
    record_property("behaviours", in_words(table))
    by_group = found["groups"].set_index("group")["status"]

    check(partitions, table, example_groups.deleted)
    for name, group in groups.items():
        status = EXPECTED[group.behaviour].status if group.behaviour in EXPECTED else None
        assert by_group.get(name) == (OF_GROUP.get(status, status) if status else None), name
