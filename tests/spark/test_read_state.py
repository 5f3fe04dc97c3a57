"""Reading on where the last run ended gives what a full reading gives, whatever happened."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple, Self

import kafka
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from applications import PATIENCE_S, Applications, eventually
from brokers import until_ready
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions
from fleet_tasks import tasks_of
from kafka.admin import KafkaAdminClient

from toolkit.errors import StateFileError
from toolkit.kafka_io.offsets_topic.latest_records import LATEST, merge_latest
from toolkit.kafka_io.offsets_topic.partitions import OFFSETS_TOPIC
from toolkit.kafka_io.offsets_topic.reader import read_offsets_log
from toolkit.model import Cluster, TopicPartition
from toolkit.sandbox.broker import start_broker
from toolkit.spark import history as history_module
from toolkit.spark import read_state
from toolkit.spark.arrow import Row, unpack
from toolkit.spark.history import STATE_TABLE, History, RunFiles, paths_in
from toolkit.spark.read_state import ReadState, load_state, state_rows
from toolkit.spark.read_tasks import LogTask, StoredPartitions

pytestmark = [
    pytest.mark.slow("groups that commit until the log is cleaned"),
    pytest.mark.starts("a broker"),
    # Of a cluster that is down.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.usefixtures("lost_sockets"),
]

NAME = "moving ü/=cluster"
MOMENT, WEEK = timedelta(seconds=1), timedelta(days=7)
PLAIN = {"segment.ms": "604800000", "min.cleanable.dirty.ratio": "0.5"}
CLEANED = {"segment.ms": "300", "min.cleanable.dirty.ratio": "0.0001"}


@pytest.fixture(scope="module")
def moving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Return a cluster with few offsets partitions, of which the cleaner is quick when asked."""
    directory = tmp_path_factory.mktemp("moving")
    properties = {"offsets.topic.num.partitions": "3", "log.cleaner.backoff.ms": "100"}
    broker = start_broker(directory, properties=properties)
    try:
        until_ready(broker.address)
        yield Cluster(NAME, broker.address)
    finally:
        broker.stop()


@pytest.fixture
def there(applications: Callable[[Cluster], Applications], moving: Cluster) -> Applications:
    """Return the applications on that cluster, which has an offsets topic with deletions."""
    some = applications(moving)
    topic, groups = some.create_topic(some.name("some")), [some.name("some") for _ in range(6)]
    for group in groups:
        some.commit(group, {TopicPartition(topic, 0): 0})
    delete_groups(some, groups[:3])
    return some


def delete_groups(there: Applications, groups: list[str]) -> None:
    with patient_admin(there) as admin:
        assert {"OK"} == set(admin.delete_groups(groups).values())


def patient_admin(there: Applications) -> closing[KafkaAdminClient]:
    """Return an admin client that a busy machine does not keep from its answers."""
    patience = dict.fromkeys(("request_timeout_ms", "bootstrap_timeout_ms"), 1000 * PATIENCE_S)
    return closing(KafkaAdminClient(bootstrap_servers=there.address, **patience))


Looked = Sequence[LogTask]  # an offsets topic at one moment: what is in it, up to its end


class Reading(NamedTuple):
    """What was read of it."""

    blocks: list[Row]
    problems: list[str]

    @property
    def latest(self) -> pa.Table:
        """The newest record of each key: LATEST."""
        found = [unpack(block["latest"], LATEST) for block in self.blocks]
        return pa.concat_tables([LATEST.empty_table(), *found])

    @property
    def reads(self) -> list[dict[str, Any]]:
        """How far each partition was read: `schemas.READ_TO`."""
        return [block["read_to"] for block in self.blocks]

    def whys(self) -> set[str]:
        """Return why partitions were read in full; "" for those that were not."""
        return {read["why_full"] for read in self.reads}


def look(cluster: Cluster) -> Looked:
    """Ask where the partitions of the offsets topic begin and end now."""
    looked = looked_at(cluster)
    assert looked
    return looked


def looked_at(cluster: Cluster) -> Looked:
    """Return the same; nothing while a partition has no leader."""
    found = tasks_of(cluster)
    is_read = all(isinstance(one, LogTask) or not (one.by_admin or one.problem) for one in found)
    return [one for one in found if is_read and isinstance(one, LogTask)]


def going_on(looked: Looked, kept: StoredPartitions) -> Looked:
    """Return the tasks that read each partition from where it may go on, up to the end it had."""
    return [replace(task, stored=kept.get(task.number)) for task in looked]


def read(looked: Looked, kept: StoredPartitions) -> Reading:
    tasks = going_on(looked, kept)
    rows = [{"cluster": task.cluster.name, **row} for task in tasks for row in task.rows()]
    assert [] == [row for row in rows if "by_admin" in row]
    blocks = [row for row in rows if "problem" not in row]
    return Reading(blocks, [row["problem"] for row in rows if "problem" in row])


def in_full(looked: Looked) -> pa.Table:
    return read(looked, {}).latest


def go_on(
    root: Path, cluster: Cluster, looked: Looked | None = None
) -> tuple[pa.Table, Reading, ReadState]:
    """Do what a run does: load the state, read what is new, merge, save. Return all of it."""
    state = load_state(History(str(root)), [cluster.name])
    reading = read(looked or look(cluster), state.stored.get(cluster.name, {}))
    saved(root, reading, over=state.over)
    return reading.latest, reading, state


def saved(root: Path, reading: Reading, name: str = "", over: Sequence[str] = ()) -> None:
    """Save a reading as the state of its cluster, or another, in a run of its own."""
    history = History(str(root))
    run = history.begin("", datetime.now(UTC))
    files = RunFiles(history.root, run)
    for row in state_rows([block | {"cluster": name or NAME} for block in reading.blocks]):
        files.add(STATE_TABLE, row)
    assert history.publish(run, files.close(), over)


def by_key(table: pa.Table, *, alive: bool = False) -> dict[tuple[int, bytes], dict[str, Any]]:
    """Return rows by what identifies them; only those with a value, if asked."""
    rows = table.to_pylist()
    found = {(row["offsets_partition"], row["key"]): row for row in rows}
    assert len(found) == len(rows)
    return {key: row for key, row in found.items() if row["value"] is not None or not alive}


def newest(table: pa.Table) -> dict[tuple[int, bytes], tuple[Any, ...]]:
    """Return what the newest record of each key is that is not deleted."""
    names = ("value", "record_offset", "written_at")
    return {key: tuple(row[n] for n in names) for key, row in by_key(table, alive=True).items()}


def alter(there: Applications, **settings: str) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    topic = ConfigResource(ConfigResource.Type.TOPIC, OFFSETS_TOPIC, incremental_configs=entries)
    for done in there.admin.incremental_alter_configs([topic]).values():
        done.result()


class _Traffic:
    """Groups that commit on a topic of four partitions, lose offsets, end and come again."""

    def __init__(self, there: Applications, topic: str) -> None:
        self.there, self.topic = there, topic
        self.rounds = 0
        self._stop = Event()

    def __enter__(self) -> Self:
        self._pool = ThreadPoolExecutor(1)
        self._running = self._pool.submit(self._run)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._running.result()
        self._pool.shutdown()

    def more(self) -> None:
        seen = self.rounds
        eventually(lambda: self.rounds >= seen + 3 or self._running.done())

    def _run(self) -> None:
        with patient_admin(self.there) as admin:
            while not self._stop.is_set():
                number = self.rounds
                for group in range(5):
                    places = [TopicPartition(self.topic, n) for n in range(4)]
                    offsets = dict.fromkeys(places, number * 7 % 90 + group)
                    self.there.commit(f"{self.topic}-{group}", offsets)
                gone = [kafka.TopicPartition(self.topic, number % 4)]
                admin.delete_group_offsets(f"{self.topic}-{number % 5}", gone)
                if number % 3 == 2:
                    admin.delete_groups([f"{self.topic}-{number % 2}"])
                self.rounds += 1


def test_steps_over_a_moving_cluster_equal_one_full_reading(
    tmp_path: Path, moving: Cluster, there: Applications
) -> None:
    """Steps while groups commit, are deleted and have members come to what one reading finds."""
    topic = there.create_topic(there.name("moving"), partitions=4)
    with _Traffic(there, topic) as traffic:
        for number, protocol in enumerate(("classic", "consumer")):
            traffic.more()
            _, reading, _ = go_on(tmp_path, moving)
            assert (number > 0) == ("" in reading.whys())
            member = there.join(there.name("member"), [topic], protocol=protocol)
            position = there.position(TopicPartition(topic, 0), number)
            member.commit(offsets=[position], asynchronous=False)
            member.close()
    looked = look(moving)
    table, reading, state = go_on(tmp_path, moving, looked)
    full = in_full(looked)

    assert {""} == reading.whys()
    assert sum(read["start"] for read in reading.reads) > 100
    assert reading.problems == []
    assert state.not_used == {}
    assert by_key(full) == by_key(table)
    assert len(by_key(table)) > len(by_key(table, alive=True)) > 20


def test_compaction_between_two_readings_changes_nothing(
    tmp_path: Path, moving: Cluster, there: Applications
) -> None:
    """Superseded records affect nothing that is newest, nor any tombstone."""
    topic = there.create_topic(there.name("cleaned"), partitions=4)
    alter(there, **CLEANED)
    try:
        with _Traffic(there, topic) as traffic:
            traffic.more()
            _, before, _ = go_on(tmp_path, moving)
            read_before = sum(read["next_offset"] for read in before.reads)

            def cleaned() -> bool:
                # More is gone than half of what had been read.
                traffic.more()
                now = look(moving)
                left = sum(read_offsets_log(moving, one.number, one.log).records for one in now)
                return left < sum(one.log.log_end or 0 for one in now) - read_before / 2

            eventually(cleaned)
        looked = look(moving)
        table, reading, _ = go_on(tmp_path, moving, looked)
        everything = in_full(looked)
    finally:
        alter(there, **PLAIN)

    assert {""} == reading.whys()
    full, stepped = by_key(everything), by_key(table)
    assert newest(everything) == newest(table)
    assert full.keys() == stepped.keys()
    for key, row in full.items():
        if row["recent_record"]:
            # The steps have seen what one reading finds, and commits that are compacted away.
            first = stepped[key]["recent_record"][0]
            assert {n for n in row["recent_record"] if n >= first} <= {
                *stepped[key]["recent_record"]
            }
            assert stepped[key]["max_committed"] >= row["max_committed"]


def test_a_reading_too_late_for_tombstones_starts_again(
    tmp_path: Path, moving: Cluster, there: Applications
) -> None:
    """Once the log has lost a deletion, continuing would keep what was deleted."""
    topic, doomed = there.create_topic(there.name("late"), partitions=4), there.name("doomed")
    there.commit(doomed, {TopicPartition(topic, n): 5 for n in range(4)})
    alter(there, **CLEANED, **{"delete.retention.ms": "1000"})
    try:
        before, _, _ = go_on(tmp_path, moving)
        delete_groups(there, [doomed])
        with _Traffic(there, topic) as traffic:

            def forgotten() -> bool:
                traffic.more()
                left = in_full(look(moving))
                return not any(doomed.encode() in row["key"] for row in left.to_pylist())

            eventually(forgotten)
        looked = look(moving)
        table, reading, state = go_on(tmp_path, moving, looked)
        ends = {number: one.point.next_offset for number, one in state.stored[NAME].items()}
        since = [
            read_offsets_log(moving, one.number, one.log, start=ends[one.number]).latest
            for one in looked
        ]
        full = in_full(looked)
    finally:
        alter(there, **PLAIN, **{"delete.retention.ms": "86400000"})

    assert any("tombstones are only guaranteed" in why for why in reading.whys())
    assert "" not in reading.whys()
    assert newest(full) == newest(table)
    wrongly = by_key(merge_latest(before, pa.concat_tables(since)))
    kept = [row for (_, key), row in wrongly.items() if doomed.encode() in key and row["value"]]
    assert len(kept) == 4  # what would have been reported for ever


def test_an_open_transaction_holds_the_next_reading_back(
    tmp_path: Path, moving: Cluster, there: Applications
) -> None:
    """What an open transaction hides is read by the next run: no record is stepped over."""
    topic, group = there.create_topic(there.name("open"), partitions=4), there.name("open-group")
    partition = TopicPartition(topic, 0)
    there.commit(group, {partition: 1})
    producer = there.pending(group, 8, partition)
    there.commit(group, {TopicPartition(topic, 1): 2})  # behind it, in the same partition
    hidden = look(moving)
    table, first, _ = go_on(tmp_path, moving, hidden)
    producer.commit_transaction()
    eventually(lambda: all(one.log.last_stable == one.log.log_end for one in look(moving)))
    looked = look(moving)
    again, second, _ = go_on(tmp_path, moving, looked)

    ends = {one["offsets_partition"]: one["read_to"]["next_offset"] for one in first.blocks}
    behind = [one for one in hidden if ends[one.number] == one.log.last_stable != one.log.log_end]
    assert len(behind) == 1
    assert 1 == sum(group.encode() in key for _, key in by_key(table, alive=True))
    assert {""} == second.whys()
    assert by_key(in_full(looked)) == by_key(again)
    assert 2 == sum(group.encode() in key for _, key in by_key(again, alive=True))


def test_another_cluster_under_the_same_name_is_read_in_full(
    tmp_path: Path, there: Applications, apps: Applications
) -> None:
    """A recreated cluster has another offsets topic; nothing of the old one is kept."""
    go_on(tmp_path, there.cluster)
    topic = apps.create_topic(apps.name("anew"))
    for _ in range(60):  # so that hardly any of its ten offsets partitions stays empty
        apps.commit(apps.name("anew"), {TopicPartition(topic, 0): 0})
    anew = Cluster(NAME, apps.address)
    looked = look(anew)
    table, reading, _ = go_on(tmp_path, anew, looked)

    assert any("was re-created" in why for why in reading.whys())
    assert "" not in reading.whys()
    # Groups of other tests move on meanwhile, and the log of theirs is compacted.
    whole, found = (
        {key: row for key, row in by_key(one).items() if b"anew" in key[1]}
        for one in (in_full(looked), table)
    )
    assert found
    assert whole == found


def look_at_all_of(cluster: Cluster, partitions: int) -> Looked | None:
    """Look at the offsets topic once it has so many partitions, and each of them a leader."""
    looked = looked_at(cluster)
    return looked if looked and looked[0].topic.partitions == partitions else None


def test_a_topic_that_has_got_more_partitions_is_read_in_full(
    tmp_path: Path, moving: Cluster, there: Applications
) -> None:
    """Groups may have moved to other partitions, so all of them are read from their beginning."""
    _, before, _ = go_on(tmp_path, moving)
    more = before.blocks[0]["partitions"] + 2
    there.admin.create_partitions([NewPartitions(OFFSETS_TOPIC, more)])[OFFSETS_TOPIC].result()
    looked = eventually(lambda: look_at_all_of(moving, more))
    table, reading, _ = go_on(tmp_path, moving, looked)

    assert {f"the offsets topic had {more - 2} partitions and has {more}: groups have moved"} == (
        reading.whys()
    )
    assert by_key(in_full(looked)) == by_key(table)


@pytest.fixture(scope="module")
def kept(
    moving: Cluster, applications_until: Callable[[Cluster, ExitStack], Applications]
) -> tuple[Looked, Reading]:
    """Return a full reading that states are made of, and what was read."""
    with ExitStack() as ending:
        some = applications_until(moving, ending)
        topic, groups = some.create_topic(some.name("kept")), [some.name("kept") for _ in range(50)]
        for group in groups:
            some.commit(group, {TopicPartition(topic, 0): 0})
        delete_groups(some, groups[:9])
    looked = look(moving)
    return looked, read(looked, {})


def later(reading: Reading, time: timedelta) -> Reading:
    """Return a reading that was made so much later."""
    return Reading(
        [
            block | {"read_to": block["read_to"] | {"read_at": block["read_to"]["read_at"] + time}}
            for block in reading.blocks
        ],
        [],
    )


def files_of_state(root: Path) -> list[Path]:
    """Return the files of the states that are in force or were."""
    return sorted((root / STATE_TABLE).glob("day=*/*.parquet"))


def damage(file: Path, how: str) -> None:
    """Damage a file: one bit of a column, or of an eighth, or more."""
    content = bytearray(file.read_bytes())
    if how == "cut":
        content = content[:-100]
    elif how.isdigit():
        content[len(content) * int(how) // 8] ^= 1
    elif how != "lost":
        group = pq.read_metadata(file).row_group(0)
        columns = [group.column(number) for number in range(group.num_columns)]
        (column,) = [one for one in columns if one.path_in_schema == how]
        begin = column.dictionary_page_offset or column.data_page_offset
        content[begin + column.total_compressed_size - 1] ^= 1
    file.write_bytes(content)
    if how == "lost":
        file.unlink()


@pytest.mark.parametrize("how", ["lost", "cut", "latest", "next_offset", *"1234567"])
def test_a_damaged_state_is_not_used(
    tmp_path: Path, moving: Cluster, kept: tuple[Looked, Reading], how: str
) -> None:
    """The result is that of a full reading, with a note."""
    looked, reading = kept
    saved(tmp_path, reading)
    (file,) = files_of_state(tmp_path)
    damage(file, how)
    table, again, state = go_on(tmp_path, moving, looked)

    assert by_key(in_full(looked)) == by_key(table)
    # A bit of an eighth may be of what nobody reads.
    why = "".join((*state.not_used.values(), *again.problems))
    assert how.isdigit() or "the stored state" in why
    assert bool(why) == (again.whys() != {""})


def test_a_state_of_another_format_is_not_used(
    tmp_path: Path, kept: tuple[Looked, Reading], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is kept for the version that wrote it, for a day."""
    with monkeypatch.context() as older:
        older.setattr(read_state, "FORMAT", "0")
        saved(tmp_path, kept[1])
    state = load_state(History(str(tmp_path)), [NAME])

    assert ({}, []) == (state.stored, state.over)
    assert {NAME: "the stored state of earlier reads is of another format"} == state.not_used
    saved(tmp_path, kept[1])
    assert {} == load_state(History(str(tmp_path)), [NAME]).not_used


def test_of_a_damaged_cluster_the_others_are_still_used(
    tmp_path: Path, kept: tuple[Looked, Reading]
) -> None:
    """A state that cannot be read costs its own cluster a full reading, and no other."""
    _, reading = kept
    saved(tmp_path, reading, "bad")
    (bad,) = files_of_state(tmp_path)
    saved(tmp_path, reading, "good")
    damage(bad, "cut")
    state = load_state(History(str(tmp_path)), ["good", "bad", "new"])

    assert {"good"} == state.stored.keys()
    assert state.not_used
    latest = [one.latest(one.point.next_offset) for one in state.stored["good"].values()]
    assert len(reading.latest) == sum(map(len, latest))


def test_a_run_that_dies_while_it_saves_leaves_the_state_before(
    tmp_path: Path, kept: tuple[Looked, Reading], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state counts once its run is complete."""
    _, reading = kept
    saved(tmp_path, reading)
    before = load_state(History(str(tmp_path)), [NAME])
    newer = later(reading, MOMENT)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(History, "_insert", die)
        with pytest.raises(KeyboardInterrupt):
            saved(tmp_path, newer)
    assert before == load_state(History(str(tmp_path)), [NAME])
    saved(tmp_path, newer)
    after = load_state(History(str(tmp_path)), [NAME]).stored[NAME]
    assert [block["read_to"]["read_at"] for block in newer.blocks] == [
        after[block["offsets_partition"]].point.read_at for block in newer.blocks
    ]


def test_of_two_runs_at_once_the_one_that_read_further_counts(
    tmp_path: Path, kept: tuple[Looked, Reading]
) -> None:
    """Whichever is saved last; and one of another cluster does not disturb them."""
    _, reading = kept
    further = later(reading, MOMENT)
    with ThreadPoolExecutor(3) as pool:
        runs = [(further, ""), (reading, ""), (reading, "other")]
        list(pool.map(lambda run: saved(tmp_path, *run), runs))
    state = load_state(History(str(tmp_path)), [NAME, "other"])

    assert {NAME, "other"} == state.stored.keys()
    assert {read["read_at"] for read in further.reads} == {
        one.point.read_at for one in state.stored[NAME].values()
    }


def test_old_files_and_old_tombstones_go(
    tmp_path: Path, kept: tuple[Looked, Reading], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state and the one before it stay, and no tombstone that is older than they are kept."""
    _, reading = kept
    for _ in range(4):
        saved(tmp_path, reading, over=load_state(History(str(tmp_path)), [NAME]).over)
        reading = later(reading, MOMENT)
    table = History(str(tmp_path)).open(STATE_TABLE)
    assert table
    assert 2 == len(paths_in(table))
    assert 4 == len(files_of_state(tmp_path))  # somebody may still be reading them
    monkeypatch.setattr(history_module, "READ_FOR", timedelta(0))
    History(str(tmp_path)).vacuum(STATE_TABLE)
    assert 2 == len(files_of_state(tmp_path))

    tombstones = reading.latest["value"].null_count
    assert tombstones > 0
    for time, left in ((MOMENT, tombstones), (WEEK, 0)):
        rows = state_rows(later(reading, time).blocks)
        found = pa.concat_tables(unpack(row["latest"][0].as_py(), LATEST) for row in rows)
        assert left == found["value"].null_count
        assert len(reading.latest) - tombstones + left == len(found)


def test_parts_with_a_gap_are_never_joined(
    tmp_path: Path, kept: tuple[Looked, Reading], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state that ends elsewhere, or that a worker cannot read, is not used, with a note."""
    looked, reading = kept
    saved(tmp_path, reading)
    state = load_state(History(str(tmp_path)), [NAME]).stored[NAME]
    with pytest.raises(StateFileError, match="does not end at"):
        state[0].latest(state[0].point.next_offset + 1)
    moved = {0: state[0]._replace(path=state[0].path, number=1)}
    (row, block) = going_on(looked, moved)[0].rows()

    assert "does not end at" in row["problem"]
    assert looked[0].log.log_start == block["read_to"]["start"]
    monkeypatch.setattr(history_module, "HAS_DELTALAKE", False)
    (row, block) = going_on(looked, state)[0].rows()
    assert "deltalake, which is not installed" in row["problem"]
    assert looked[0].log.log_start == block["read_to"]["start"]


def test_partitions_read_in_full_use_no_state(tmp_path: Path, kept: tuple[Looked, Reading]) -> None:
    """The state is part of the result only where the reading continued."""
    looked, reading = kept
    saved(tmp_path, reading)
    state = load_state(History(str(tmp_path)), [NAME]).stored[NAME]
    task = going_on(looked, state)[0]
    emptied = replace(task, log=replace(task.log, log_start=task.log.last_stable))
    found = {}
    for one in (task, emptied):
        (block,) = one.rows()
        found[one.plan.why_full == ""] = len(unpack(block["latest"], LATEST))

    assert {True: len(state[0].latest(state[0].point.next_offset)), False: 0} == found
