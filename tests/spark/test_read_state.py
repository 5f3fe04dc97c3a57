"""Reading on where the last run ended gives what a full reading gives, whatever happened."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple, Self

import kafka
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from applications import PATIENCE_S, Applications, eventually
from brokers import until_ready
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions
from kafka.admin import KafkaAdminClient
from pyspark.sql import DataFrame, SparkSession

from toolkit.errors import BrokerRefused, StateFileError
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.leaders import describe_topics, topic_id
from toolkit.kafka_io.groups.group_settings import read_expiry_settings
from toolkit.kafka_io.offsets_topic.latest_records import LATEST, merge_latest
from toolkit.kafka_io.offsets_topic.log_ends import offsets_partitions
from toolkit.kafka_io.offsets_topic.partitions import OFFSETS_TOPIC
from toolkit.kafka_io.offsets_topic.reader import read_offsets_log
from toolkit.model import Cluster, LogOffsets, TopicPartition
from toolkit.sandbox.broker import start_broker
from toolkit.spark import read_state
from toolkit.spark.history.files import HistoryFiles
from toolkit.spark.packed_tables import pack, unpack
from toolkit.spark.read_plan import OffsetsLog, OffsetsTopicNow, ResumePoint, plan_reads
from toolkit.spark.read_state import PartitionReadResult, ReadState, load_state, merged, save_state
from toolkit.spark.schemas import READ_BLOCKS

pytestmark = [
    pytest.mark.slow("many Spark jobs"),
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
    """Delete groups, which leaves tombstones."""
    with patient_admin(there) as admin:
        assert {"OK"} == set(admin.delete_groups(groups).values())


def patient_admin(there: Applications) -> closing[KafkaAdminClient]:
    """Return an admin client that a busy machine does not keep from its answers."""
    patience = dict.fromkeys(("request_timeout_ms", "bootstrap_timeout_ms"), 1000 * PATIENCE_S)
    return closing(KafkaAdminClient(bootstrap_servers=there.address, **patience))


class Looked(NamedTuple):
    """An offsets topic at one moment."""

    topic: OffsetsTopicNow
    logs: Mapping[int, LogOffsets]


class Reading(NamedTuple):
    """What was read of it."""

    latest: pa.Table  # LATEST
    reads: list[PartitionReadResult]

    def blocks(self, session: SparkSession, name: str = NAME) -> DataFrame:
        """Return it as Spark carries it: a block for each offsets partition."""
        rows = []
        for one in self.reads:
            mine = self.latest.filter(pc.equal(self.latest["offsets_partition"], one.number))
            row = {"cluster": name, "offsets_partition": one.number, "latest": pack(mine)}
            rows.append(row)
        return session.createDataFrame(pa.Table.from_pylist(rows, schema=READ_BLOCKS))

    def whys(self) -> set[str]:
        """Return why partitions were read in full; "" for those that were not."""
        return {read.why_full for read in self.reads}


def look(cluster: Cluster) -> Looked:
    """Ask where the partitions of the offsets topic begin and end now."""
    asked_at = datetime.now(UTC)
    with Connection(cluster) as connection:
        topic = offsets_partitions(connection)
        (described,) = describe_topics(connection, [OFFSETS_TOPIC])
        retention_ms = read_expiry_settings(connection).delete_retention_ms
    epochs = {one.partition_index: one.leader_epoch for one in described.partitions}
    logs = {
        number: OffsetsLog(log.log_start or 0, log.last_stable or 0, epochs[number])
        for number, log in topic.logs.items()
    }
    now = OffsetsTopicNow(asked_at, topic_id(described), topic.partitions, retention_ms, logs)
    return Looked(now, topic.logs)


def read(cluster: Cluster, looked: Looked, points: Mapping[int, ResumePoint]) -> Reading:
    """Read each partition from where it may go on, up to the end it had."""
    tables, reads = [LATEST.empty_table()], []
    topic = looked.topic
    for number, plan in plan_reads(points, topic).items():
        found = read_offsets_log(cluster, number, looked.logs[number], start=plan.start)
        tables.append(found.latest)
        point = ResumePoint(
            next_offset=found.next_offset,
            log_start=topic.logs[number].log_start,
            read_at=topic.asked_at,
            topic_id=topic.topic_id,
            partitions=topic.partitions,
            delete_retention_ms=topic.delete_retention_ms or 0,
            leader_epoch=topic.logs[number].leader_epoch,
        )
        reads.append(PartitionReadResult(cluster.name, number, plan.start, plan.why_full, point))
    return Reading(pa.concat_tables(tables), reads)


def rows(blocks: DataFrame) -> pa.Table:
    """Return what is in blocks: LATEST."""
    found = [unpack(row["latest"], LATEST) for row in blocks.toArrow().to_pylist()]
    return pa.concat_tables([LATEST.empty_table(), *found])


def in_full(cluster: Cluster, looked: Looked) -> pa.Table:
    """Read everything up to the same ends."""
    return read(cluster, looked, {}).latest


def go_on(session: SparkSession, root: Path, cluster: Cluster, looked: Looked | None = None) -> Any:
    """Do what a run does: load the state, read what is new, merge, save. Return all of it."""
    state = load_state(session, str(root), [cluster.name])
    reading = read(cluster, looked or look(cluster), state.points.get(cluster.name, {}))
    blocks = merged(state, reading.blocks(session), reading.reads).persist()
    save_state(session, str(root), blocks, reading.reads)
    table = rows(blocks)
    blocks.unpersist()
    return table, reading, state


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
    """Set the offsets topic's settings."""
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

    def more(self, rounds: int = 3) -> None:
        seen = self.rounds
        eventually(lambda: self.rounds >= seen + rounds or self._running.done())

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
    session: SparkSession, tmp_path: Path, moving: Cluster, there: Applications
) -> None:
    """Steps while groups commit, are deleted and have members come to what one reading finds."""
    topic = there.create_topic(there.name("moving"), partitions=4)
    with _Traffic(there, topic) as traffic:
        for number, protocol in enumerate(("classic", "consumer")):
            traffic.more()
            _, reading, _ = go_on(session, tmp_path, moving)
            assert (number > 0) == ("" in reading.whys())
            member = there.join(there.name("member"), [topic], protocol=protocol)
            position = there.position(TopicPartition(topic, 0), number)
            member.commit(offsets=[position], asynchronous=False)
            member.close()
    looked = look(moving)
    table, reading, state = go_on(session, tmp_path, moving, looked)
    full = in_full(moving, looked)

    assert {""} == reading.whys()
    assert 0 < len(reading.latest)
    assert sum(r.start for r in reading.reads) > 100
    assert state.not_used == {}
    assert by_key(full) == by_key(table)
    assert len(by_key(table)) > len(by_key(table, alive=True)) > 20


def test_what_compaction_takes_away_between_two_readings_is_not_missed(
    session: SparkSession, tmp_path: Path, moving: Cluster, there: Applications
) -> None:
    """Records that are superseded and cleaned change nothing that is newest, nor any tombstone."""
    topic = there.create_topic(there.name("cleaned"), partitions=4)
    alter(there, **CLEANED)
    try:
        with _Traffic(there, topic) as traffic:
            traffic.more()
            _, before, _ = go_on(session, tmp_path, moving)
            read_before = sum(read.point.next_offset for read in before.reads)

            def cleaned() -> bool:
                # More is gone than half of what had been read.
                traffic.more()
                logs = look(moving).logs
                left = sum(read_offsets_log(moving, n, log).records for n, log in logs.items())
                return left < sum(log.log_end or 0 for log in logs.values()) - read_before / 2

            eventually(cleaned)
        looked = look(moving)
        table, reading, _ = go_on(session, tmp_path, moving, looked)
        everything = in_full(moving, looked)
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


def test_a_reading_that_comes_too_late_for_tombstones_begins_anew(
    session: SparkSession, tmp_path: Path, moving: Cluster, there: Applications
) -> None:
    """Once the log has lost a deletion, going on would keep what was deleted; so it does not."""
    topic, doomed = there.create_topic(there.name("late"), partitions=4), there.name("doomed")
    there.commit(doomed, {TopicPartition(topic, n): 5 for n in range(4)})
    alter(there, **CLEANED, **{"delete.retention.ms": "1000"})
    try:
        before, _, _ = go_on(session, tmp_path, moving)
        delete_groups(there, [doomed])
        with _Traffic(there, topic) as traffic:

            def forgotten() -> bool:
                traffic.more()
                left = in_full(moving, look(moving))
                return not any(doomed.encode() in row["key"] for row in left.to_pylist())

            eventually(forgotten)
        looked = look(moving)
        table, reading, state = go_on(session, tmp_path, moving, looked)
        points = state.points[NAME]
        since = [
            read_offsets_log(moving, n, log, start=points[n].next_offset).latest
            for n, log in looked.logs.items()
        ]
        full = in_full(moving, looked)
    finally:
        alter(there, **PLAIN, **{"delete.retention.ms": "86400000"})

    assert any("tombstones are only guaranteed" in why for why in reading.whys())
    assert "" not in reading.whys()
    assert newest(full) == newest(table)
    wrongly = by_key(merge_latest(before, pa.concat_tables(since)))
    kept = [row for (_, key), row in wrongly.items() if doomed.encode() in key and row["value"]]
    assert len(kept) == 4  # what would have been reported for ever


def test_an_open_transaction_holds_the_next_reading_back(
    session: SparkSession, tmp_path: Path, moving: Cluster, there: Applications
) -> None:
    """What an open transaction hides is read by the next run: no record is stepped over."""
    topic, group = there.create_topic(there.name("open"), partitions=4), there.name("open-group")
    partition = TopicPartition(topic, 0)
    there.commit(group, {partition: 1})
    producer = there.pending(group, 8, partition)
    there.commit(group, {TopicPartition(topic, 1): 2})  # behind it, in the same partition
    hidden = look(moving)
    table, first, _ = go_on(session, tmp_path, moving, hidden)
    producer.commit_transaction()
    eventually(lambda: all(log.last_stable == log.log_end for log in look(moving).logs.values()))
    looked = look(moving)
    again, second, _ = go_on(session, tmp_path, moving, looked)

    ends = {read.number: read.point.next_offset for read in first.reads}
    behind = [n for n, log in hidden.logs.items() if ends[n] == log.last_stable != log.log_end]
    assert len(behind) == 1
    assert 1 == sum(group.encode() in key for _, key in by_key(table, alive=True))
    assert {""} == second.whys()
    assert by_key(in_full(moving, looked)) == by_key(again)
    assert 2 == sum(group.encode() in key for _, key in by_key(again, alive=True))


def test_another_cluster_under_the_same_name_is_read_in_full(
    session: SparkSession, tmp_path: Path, there: Applications, apps: Applications
) -> None:
    """A cluster that was made anew has another offsets topic; nothing of the old one is kept."""
    go_on(session, tmp_path, there.cluster)
    topic = apps.create_topic(apps.name("anew"))
    for _ in range(60):  # so that hardly any of its ten offsets partitions stays empty
        apps.commit(apps.name("anew"), {TopicPartition(topic, 0): 0})
    anew = Cluster(NAME, apps.address)
    looked = look(anew)
    table, reading, _ = go_on(session, tmp_path, anew, looked)

    assert any("was re-created" in why for why in reading.whys())
    assert "" not in reading.whys()
    # Groups of other tests move on meanwhile, and the log of theirs is compacted.
    whole, found = (
        {key: row for key, row in by_key(one).items() if b"anew" in key[1]}
        for one in (in_full(anew, looked), table)
    )
    assert found
    assert whole == found


def look_at_all_of(cluster: Cluster, partitions: int) -> Looked | None:
    """Look at the offsets topic once it has so many partitions, and each of them a leader."""
    with suppress(BrokerRefused):
        looked = look(cluster)
        return looked if looked.topic.partitions == partitions else None
    return None


def test_a_topic_that_has_got_more_partitions_is_read_in_full(
    session: SparkSession, tmp_path: Path, moving: Cluster, there: Applications
) -> None:
    """Groups may have moved to other partitions, so all of them are read from their beginning."""
    _, before, _ = go_on(session, tmp_path, moving)
    more = before.reads[0].point.partitions + 2
    there.admin.create_partitions([NewPartitions(OFFSETS_TOPIC, more)])[OFFSETS_TOPIC].result()
    looked = eventually(lambda: look_at_all_of(moving, more))
    table, reading, _ = go_on(session, tmp_path, moving, looked)

    assert {f"the offsets topic had {more - 2} partitions and has {more}: groups have moved"} == (
        reading.whys()
    )
    assert by_key(in_full(moving, looked)) == by_key(table)


@pytest.fixture(scope="module")
def state_of_kept(
    session: SparkSession, kept: Reading, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Return a folder with a state, to be copied."""
    root = tmp_path_factory.mktemp("state")
    saved(session, root, kept)
    return root


@pytest.fixture(scope="module")
def kept(
    moving: Cluster, applications_until: Callable[[Cluster, ExitStack], Applications]
) -> Reading:
    """Return a full reading that states are made of."""
    with ExitStack() as ending:
        some = applications_until(moving, ending)
        topic, groups = some.create_topic(some.name("kept")), [some.name("kept") for _ in range(50)]
        for group in groups:
            some.commit(group, {TopicPartition(topic, 0): 0})
        delete_groups(some, groups[:9])
    return read(moving, look(moving), {})


def saved(session: SparkSession, root: Path, reading: Reading, name: str = NAME) -> None:
    """Save a reading as the state of a cluster."""
    reads = [one._replace(cluster=name) for one in reading.reads]
    save_state(session, str(root), reading.blocks(session, name), reads)


def states_in(root: Path) -> list[Path]:
    """Return the folders of the states that are saved below a folder."""
    return [path for path in (root / "state").iterdir() if path.is_dir()]


def reached_later(reads: list[PartitionReadResult], time: timedelta) -> list[PartitionReadResult]:
    """Return results of reading that were reached so much later."""

    def later(point: ResumePoint) -> ResumePoint:
        values = {name: getattr(point, name) for name in ResumePoint.__slots__}
        return ResumePoint(**{**values, "read_at": point.read_at + time})

    return [read._replace(point=later(read.point)) for read in reads]


def damage(folder: Path, how: str) -> None:
    """Damage the largest Parquet file of a state, or the file that lists what must be there."""
    file = max(folder.glob("*.parquet"), key=lambda file: file.stat().st_size)
    listing = folder.with_name(f"{folder.name}.json")
    match how:
        case "cut":
            file.write_bytes(file.read_bytes()[:-100])
        case "one bit":
            data = bytearray(file.read_bytes())
            data[len(data) // 3] ^= 1
            rewrite(file, data)
        case "lost":
            file.unlink()
        case "twice":
            file.with_name(f"again-{file.name}").write_bytes(file.read_bytes())
        case "listing cut":
            rewrite(listing, listing.read_bytes()[:-10])
        case "listing of another format":
            rewrite(
                listing, json.dumps({**json.loads(listing.read_text()), "format": "0"}).encode()
            )


def rewrite(file: Path, content: bytes | bytearray) -> None:
    """Rewrite a file where the file system has no checksum that would tell."""
    file.write_bytes(content)
    file.with_name(f".{file.name}.crc").unlink()


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("cut", "the stored state of earlier reads"),
        ("one bit", "the stored state of earlier reads"),
        ("lost", "is damaged"),
        ("twice", "is damaged"),
        ("listing cut", "is invalid"),
        ("listing of another format", "another format"),
    ],
)
def test_a_damaged_state_is_not_used_and_told(
    session: SparkSession, tmp_path: Path, state_of_kept: Path, how: str, said: str
) -> None:
    """Whatever has happened to the files, nothing is built on them."""
    shutil.copytree(state_of_kept, tmp_path, dirs_exist_ok=True)
    (folder,) = states_in(tmp_path)
    damage(folder, how)
    state = load_state(session, str(tmp_path), [NAME])

    assert load_state(session, str(state_of_kept), [NAME]).points.keys() == {NAME}
    assert (state.points, state.latest) == ({}, None)
    assert said in "".join(state.not_used.values())


def test_of_a_damaged_cluster_the_others_are_still_used(
    session: SparkSession, tmp_path: Path, kept: Reading
) -> None:
    """A state that cannot be read costs its own cluster a full reading, and no other."""
    saved(session, tmp_path, kept, "bad")
    (bad,) = states_in(tmp_path)
    saved(session, tmp_path, kept, "good")
    damage(bad, "cut")
    state = load_state(session, str(tmp_path), ["good", "bad", "new"])

    assert (state.points.keys(), state.not_used.keys()) == ({"good"}, {"bad"})
    assert state.latest is not None
    assert len(kept.latest) == len(rows(state.latest))


def test_a_run_that_dies_while_it_saves_leaves_the_state_before(
    session: SparkSession,
    tmp_path: Path,
    kept: Reading,
    state_of_kept: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A version counts once all of it is there."""
    shutil.copytree(state_of_kept, tmp_path, dirs_exist_ok=True)
    before = load_state(session, str(tmp_path), [NAME]).points

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    later = reached_later(kept.reads, MOMENT)
    with monkeypatch.context() as dying:
        dying.setattr(HistoryFiles, "write_once", die)
        with pytest.raises(KeyboardInterrupt):
            saved(session, tmp_path, Reading(kept.latest, later))
    after = load_state(session, str(tmp_path), [NAME])
    assert (after.points, after.not_used) == (before, {})
    saved(session, tmp_path, Reading(kept.latest, later))
    assert {r.number: r.point for r in later} == (
        load_state(session, str(tmp_path), [NAME]).points[NAME]
    )


def test_old_versions_and_old_tombstones_go(
    session: SparkSession, tmp_path: Path, kept: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two versions of a cluster stay, and no tombstone that is older than they are kept."""
    reading = kept
    for _ in range(3):
        reading = Reading(kept.latest, reached_later(reading.reads, MOMENT))
        saved(session, tmp_path, reading)
    assert 2 == len(list((tmp_path / "state").glob("*.json")))
    assert 2 == len(states_in(tmp_path))
    tombstones = kept.latest["value"].null_count
    state = load_state(session, str(tmp_path), [NAME])
    assert state.latest is not None
    assert tombstones == rows(state.latest)["value"].null_count > 0

    monkeypatch.setattr(read_state, "new_name", lambda: "29990101T000000Z-later")
    saved(session, tmp_path, Reading(kept.latest, reached_later(kept.reads, WEEK)))
    state = load_state(session, str(tmp_path), [NAME])
    assert state.latest is not None
    left = rows(state.latest)
    assert (0, len(kept.latest) - tombstones) == (left["value"].null_count, len(left))


def test_a_reading_that_went_on_from_elsewhere_is_refused(
    session: SparkSession, kept: Reading
) -> None:
    """Parts that do not meet are never put together."""
    read = kept.reads[0]
    state = ReadState({NAME: {read.number: read.point}}, None, {})
    elsewhere = read._replace(why_full="", start=read.point.next_offset + 1)

    with pytest.raises(StateFileError, match="not where the state ends"):
        merged(state, kept.blocks(session), [elsewhere])


def test_partitions_that_were_read_in_full_get_nothing_of_what_was_kept(
    session: SparkSession, tmp_path: Path, kept: Reading
) -> None:
    """Only of those where the reading went on is the state a part of the result."""
    saved(session, tmp_path, kept)
    state = load_state(session, str(tmp_path), [NAME])
    first = kept.reads[0]
    reads = [first._replace(start=first.point.next_offset, why_full=""), *kept.reads[1:]]
    nothing_new = Reading(LATEST.empty_table(), kept.reads)
    latest = rows(merged(state, nothing_new.blocks(session), reads))
    expected = {key: row for key, row in by_key(kept.latest).items() if key[0] == first.number}

    assert expected == by_key(latest)
    assert 0 < len(expected) < len(kept.latest)
