"""A keeper, without a broker: what it does when it is told things and they go wrong."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from toolkit.errors import BrokerRefused, ClusterUnreachable, HoldLost, Interrupted
from toolkit.live.keeper import Keeper
from toolkit.live.keeper_socket import KeeperRequest, ask_keeper
from toolkit.live.recipe_steps import RecipeChannel
from toolkit.model import CaptureMode, Cluster, GroupType, HoldNote, TopicPartition
from toolkit.plan import ChangeStatus
from toolkit.storage import audit
from toolkit.storage.hold_files import HoldRecord, HoldStatus, hold_path, read_hold

ONE, TWO, THREE, FOUR = (TopicPartition("orders", number) for number in (1, 2, 3, 4))


@dataclass
class Recipes:
    """A hold that is nowhere, and fails where it is told to."""

    held: frozenset[TopicPartition] = frozenset({ONE, TWO})
    fails: list[str] = field(default_factory=list)
    lost: frozenset[TopicPartition] = frozenset()  # what the broker says that it has no more
    loses_all: bool = False  # with what is lost
    is_slow: bool = False  # whether what it releases is not seen as released
    survives_s: float | None = 45.0
    takes_s: float = 0.0  # a capture
    beat_every_s: float = 0.0

    def capture(self, channel: RecipeChannel, wanted: frozenset[TopicPartition]) -> None:
        self._step(channel, "capture")
        time.sleep(self.takes_s)
        self.held |= wanted

    def keep(self, channel: RecipeChannel) -> None:
        self._step(channel, "keep")
        if lost := self.lost & self.held:
            self.held -= lost
            raise HoldLost("another operator resumed it")

    def release(self, channel: RecipeChannel, some: frozenset[TopicPartition]) -> None:
        self._step(channel, "release")
        lost = self.lost & self.held
        self.held -= some
        if self.is_slow:
            raise BrokerRefused("no tasks yet")
        if self.loses_all:
            self.held = frozenset()
        if lost:
            raise HoldLost("another operator resumed it")

    def state(self) -> dict[str, Any]:
        return {"held": sorted(self.held)}

    def _step(self, channel: RecipeChannel, name: str) -> None:
        channel.sleep(0)
        if name in self.fails:
            self.fails.remove(name)
            raise ClusterUnreachable("nobody is there")


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    path = hold_path(tmp_path, "cluster", "group")
    path.parent.mkdir(parents=True)
    note = HoldNote("ana", "desk-1", datetime(2026, 11, 21, tzinfo=UTC))
    kind = (GroupType.CLASSIC, "range", (ONE, TWO), CaptureMode.LOSSLESS)
    record = HoldRecord("run", Cluster("eu", "127.0.0.1:1"), "cluster", "group", *kind, note)
    keeper = Keeper(path, record, starter=None)
    keeper.hold = Recipes()
    keeper.standby.ensure = lambda: None  # type: ignore[method-assign]  # it would have its own hold
    keeper.note_held("held")
    with keeper.wakeful, keeper.waker, keeper.control, keeper.channel:
        yield keeper


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (KeeperRequest("release"), "nobody is there"),
        (KeeperRequest("add", frozenset({THREE})), "nobody is there"),
        (KeeperRequest("dance"), "unknown request"),
    ],
    ids=["release", "add", "unknown"],
)
def test_a_failed_request_keeps_what_is_held(
    keeper: Keeper, request_: KeeperRequest, words: str
) -> None:
    """The response has the reason, and the hold continues; it can be released and stopped."""
    keeper.hold = Recipes(fails=["release", "capture"])

    answer = keeper.answer(request_)

    assert not answer["ok"]
    assert words in answer["words"]
    assert {ONE, TWO} == keeper.hold.held
    assert (False, "") == (keeper.is_ending, keeper.end_reason)
    keeper.end_reason = "stopped by SIGTERM"
    with pytest.raises(Interrupted, match="SIGTERM"):
        keeper.check()
    keeper.hold.fails.clear()
    assert keeper.answer(KeeperRequest("release"))["ok"]
    assert frozenset() == keeper.hold.held


def test_lost_partitions_are_captured_again_on_request(keeper: Keeper) -> None:
    """Before it adds partitions, a keeper checks with the broker what it holds."""
    keeper.hold = Recipes(lost=frozenset({ONE}))

    answer = keeper.answer(KeeperRequest("add", frozenset({ONE, THREE})))

    assert (True, [ONE, TWO, THREE]) == (answer["ok"], answer["held"])
    assert keeper.lost is None


@pytest.mark.parametrize("lost", [{ONE}, {ONE, TWO}], ids=["some", "all"])
def test_a_hold_that_finds_a_loss_on_a_request_keeps_the_rest(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch, lost: set[TopicPartition]
) -> None:
    """The response has the reason; the keeper ends only if nothing is left."""

    def capture(*_: object) -> None:
        keeper.hold = Recipes(held=keeper.hold.held - lost)
        raise HoldLost("the topic was deleted")

    monkeypatch.setattr(keeper.hold, "capture", capture)
    answer = keeper.answer(KeeperRequest("add", frozenset({ONE})))

    assert (False, "the topic was deleted") == (answer["ok"], answer["words"])
    assert (lost == {ONE, TWO}) == (keeper.lost is not None)


def test_a_keeper_that_has_lost_everything_reports_it_and_ends(keeper: Keeper) -> None:
    """The response and the hold file have the reason: this keeper resumed nothing."""
    keeper.hold = Recipes(lost=frozenset({ONE, TWO}))
    keeper.record = replace(keeper.record, wanted=(ONE, TWO))
    answers = []
    keeper.control.serve = lambda answer, _: answers.append(  # type: ignore[method-assign]
        answer(KeeperRequest("add", frozenset({ONE})))
    )
    keeper.ready = lambda *_: [keeper.control.fileno()]  # type: ignore[method-assign]
    keeper.hold.beat_every_s = 60.0

    keeper.run()

    record = read_hold(keeper.path)
    assert record
    assert (False, "another operator resumed it") == (answers[0]["ok"], answers[0]["words"])
    assert (HoldStatus.ENDED, "another operator resumed it") == (record.status, record.words)


@pytest.mark.parametrize(
    ("why", "words"),
    [
        ("", "the pause duration has ended; another operator resumed it"),
        ("stopped by SIGTERM", "stopped by SIGTERM; another operator resumed it"),
    ],
)
def test_an_end_does_not_hide_that_the_hold_was_lost(keeper: Keeper, why: str, words: str) -> None:
    """A keeper that was stopped for long learns it when it leaves; the end was not as planned."""
    keeper.hold = Recipes(lost=frozenset({ONE, TWO}))
    over = datetime(2026, 11, 22, tzinfo=UTC)
    keeper.record = replace(keeper.record, note=replace(keeper.record.note, until=over))
    keeper.end_reason = why

    keeper.run()

    record = read_hold(keeper.path)
    assert record
    assert (HoldStatus.ENDED, words, None) == (record.status, record.words, record.planned_end)


@pytest.mark.parametrize(
    ("hold", "words", "status"),
    [
        (Recipes(), "stopped by SIGTERM", ChangeStatus.DONE),
        (
            Recipes(fails=["release"]),
            (
                "stopped by SIGTERM; could not leave the group, so its members leave at the "
                "session timeout: nobody is there"
            ),
            ChangeStatus.NOT_CONFIRMED,
        ),
        (
            Recipes(is_slow=True),
            "stopped by SIGTERM; no tasks yet",
            ChangeStatus.NOT_CONFIRMED,
        ),
    ],
    ids=["left", "not left", "left, and not seen"],
)
def test_the_audit_log_has_what_is_known_about_an_end(
    keeper: Keeper, hold: Recipes, words: str, status: ChangeStatus
) -> None:
    """Sentinels that could not leave hold until the session timeout: that is not done."""
    keeper.hold = hold
    keeper.end_reason = "stopped by SIGTERM"

    keeper.run()

    *_, entry = audit.read(keeper.path.parents[2])
    assert (words, words) == (keeper.record.words, entry.run.reason)
    assert status is entry.steps[0].status


@pytest.mark.parametrize(
    ("some", "hold", "left"),
    [
        ({ONE, TWO}, Recipes(lost=frozenset({ONE})), ()),
        ({ONE}, Recipes(lost=frozenset({ONE})), (TWO,)),
    ],
    ids=["all", "some"],
)
def test_partitions_resumed_just_now_by_another_operator_count_as_released(
    keeper: Keeper, some: set[TopicPartition], hold: Recipes, left: tuple[TopicPartition, ...]
) -> None:
    """The request succeeds, and the rest stays held."""
    keeper.hold = hold

    answer = keeper.answer(KeeperRequest("release", frozenset(some)))

    assert (True, list(left)) == (answer["ok"], answer["held"])
    assert (left, None) == (keeper.record.held, keeper.lost)
    assert {"held": list(left)} == keeper.record.members or not left


def test_a_partial_release_shows_that_everything_is_lost(keeper: Keeper) -> None:
    """That ends the hold as lost, not as resumed, also after a move has died."""
    keeper.hold = Recipes(lost=frozenset({ONE, TWO}), loses_all=True)
    answer = keeper.answer(KeeperRequest("release", frozenset({ONE})))
    assert (False, "another operator resumed it") == (answer["ok"], answer["words"])
    assert keeper.lost

    keeper.hold = Recipes(lost=frozenset({ONE, TWO}), loses_all=True)
    over = datetime(2026, 11, 22, tzinfo=UTC)
    keeper.record = replace(keeper.record, added_until={ONE: over})
    with pytest.raises(HoldLost):
        keeper.release_what_is_over()


def test_some_are_released_and_the_rest_is_held(keeper: Keeper) -> None:
    """The hold file has what is still held, and the hold continues."""
    answer = keeper.answer(KeeperRequest("release", frozenset({ONE})))

    assert (True, [TWO]) == (answer["ok"], answer["held"])
    record = read_hold(keeper.path)
    assert record
    assert ((TWO,), (TWO,), HoldStatus.HELD) == (record.wanted, record.held, record.status)
    assert "" == keeper.end_reason


def test_a_broker_that_does_not_respond_does_not_end_a_hold(keeper: Keeper) -> None:
    """It is reported, and tried again; on request the hold ends, and the file has how."""
    keeper.hold = Recipes(fails=["keep"])
    words = []
    keeper.wait = lambda _: words.append(keeper.record.words)  # type: ignore[method-assign]  # no waiting

    def third_time() -> None:
        if len(words) == 3:
            raise Interrupted("enough")

    keeper.check = third_time  # type: ignore[method-assign]  # it is asked to end after a while
    with pytest.raises(Interrupted):
        keeper.keep()

    assert ["held", "held, as far as known: nobody is there", "held"] == words


def test_a_file_that_cannot_be_written_does_not_end_a_hold(keeper: Keeper) -> None:
    """The partitions stay held, and the file is written as soon as possible."""
    folder = keeper.path.parent
    moved = folder.rename(folder.with_name("away"))
    folder.write_text("no folder")

    assert keeper.answer(KeeperRequest("release", frozenset({ONE})))["ok"]
    assert {TWO} == keeper.hold.held

    folder.unlink()
    moved.rename(folder)
    before = read_hold(keeper.path)
    keeper.note_held("held")
    after = read_hold(keeper.path)
    assert before
    assert after
    assert (2, 1) == (len(before.held), len(after.held))


def test_a_hold_without_heartbeats_for_a_session_is_probably_over(keeper: Keeper) -> None:
    """Its words say so: brokers release partitions at the session timeout."""
    assert "held, as far as known" == keeper.probable_state()

    heard_at = keeper.heard_at
    keeper.channel.now = lambda: heard_at + 46  # type: ignore[method-assign]

    assert keeper.probable_state().startswith("probably no longer held")
    assert keeper.answer(KeeperRequest("release", frozenset({ONE})))["ok"]  # which was heard
    assert "held, as far as known" == keeper.probable_state()


def test_a_keeper_that_takes_over_does_not_pause_again(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It continues with what was held last, not with what was requested."""
    keeper.hold = Recipes(lost=frozenset({ONE}))
    keeper.beat()
    record = read_hold(keeper.path)
    assert record
    assert (((ONE, TWO)), (TWO,)) == (record.wanted, record.held)
    left = Recipes(held=frozenset({TWO}), fails=["capture"], lost=frozenset({TWO}))
    monkeypatch.setattr("toolkit.live.keeper.taken_over", lambda *_, **__: left)

    after = Keeper(keeper.path, record, starter=None)
    after.standby.ensure = lambda: None  # type: ignore[method-assign]
    after.run()

    assert ["capture"] == left.fails  # it was not called


@pytest.mark.parametrize("waits_s", [0.1, 30.0])
def test_partitions_added_for_an_absent_client_are_released(keeper: Keeper, waits_s: float) -> None:
    """The client has given up and reported that nothing was paused."""
    keeper.hold = Recipes(takes_s=0.5)
    answers: list[object] = []

    def ask() -> None:
        request = {"do": "add", "partitions": [THREE]}
        try:
            answers.append(ask_keeper(str(keeper.control.path), request, within_s=waits_s)["ok"])
        except HoldLost as exc:
            answers.append(exc)

    asking = Thread(target=ask)
    asking.start()
    keeper.control.serve(keeper.answer, keeper.release_unheard)
    asking.join()

    is_heard = answers == [True]
    assert (waits_s > 1) == is_heard
    assert ({ONE, TWO, THREE} if is_heard else {ONE, TWO}) == keeper.hold.held


def test_partitions_added_by_a_dead_move_are_released(keeper: Keeper) -> None:
    """A move resumes what it adds within minutes; if it is killed, the keeper does."""
    for place, for_s in ((THREE, 0.0), (FOUR, 60.0)):
        assert keeper.answer(KeeperRequest("add", frozenset({place}), for_s))["ok"]

    keeper.release_what_is_over()

    assert {ONE, TWO, FOUR} == keeper.hold.held
    assert keeper.answer(KeeperRequest("release", frozenset({FOUR})))["ok"]
    assert {} == keeper.record.added_until


def test_a_keeper_that_takes_over_knows_what_is_to_be_released(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The move and the first keeper were killed; partitions without an end stay held."""
    for place, for_s in ((THREE, 0.0), (FOUR, 0.0), (FOUR, None)):
        assert keeper.answer(KeeperRequest("add", frozenset({place}), for_s))["ok"]
    record = read_hold(keeper.path)
    assert record
    assert {ONE, TWO, THREE, FOUR} == {*record.held}
    left = Recipes(held=frozenset(record.held))
    monkeypatch.setattr("toolkit.live.keeper.taken_over", lambda *_, **__: left)

    after = Keeper(keeper.path, record, starter=None)
    with after.wakeful, after.waker, after.control:
        after.release_what_is_over()

    assert {ONE, TWO, FOUR} == after.hold.held


def test_partitions_of_an_earlier_request_are_not_released(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that fails before it adds any, and whose client is gone, changes nothing."""
    assert keeper.answer(KeeperRequest("add", frozenset({THREE})))["ok"]

    def fail() -> None:
        raise HoldLost("the members are not known")

    monkeypatch.setattr(keeper, "beat", fail)
    request = KeeperRequest("add", frozenset({FOUR}))
    assert not keeper.answer(request)["ok"]
    keeper.release_unheard(request)

    assert {ONE, TWO, THREE} == keeper.hold.held
