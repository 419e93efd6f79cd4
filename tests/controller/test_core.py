"""The core: what an answer says about the log, which failures concern one request and which are fatal, and that one
seed gives one history."""

from collections.abc import Iterator
from typing import Any

import pytest

from klamm.broker.data.data_plane import PARTITIONS_PER_STEP
from klamm.broker.data.record_batches import ProducedBatch, read_produced
from klamm.broker.dispatch import SERVED
from klamm.controller.core import Call, Controller
from klamm.controller.feature_names import METADATA_VERSION
from klamm.controller.log import LogError, MemoryLog
from klamm.controller.metadata.delta import Delta
from klamm.controller.metadata.replay import ReplayError
from klamm.controller.settings import Settings
from klamm.protocol.messages.cluster import describe_cluster
from klamm.protocol.messages.topics import create_topics, metadata
from klamm.protocol.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest
from klamm.protocol.messages.topics.metadata import MetadataRequest
from klamm.protocol.record_batch import Batch, BatchBuilder, decode_batches
from klamm.protocol.record_versions import LATEST_METADATA_VERSION
from klamm.protocol.records.cluster import FeatureLevelRecord
from klamm.protocol.records.configs import ConfigRecord
from klamm.protocol.records.topics import RemoveTopicRecord
from klamm.protocol.uuid import Uuid
from tests.broker.data.batches import batch
from tests.controller.handlers.cluster import START_MS, Clock, DrivenCluster, directory, new_memory_log
from tests.controller.image_facts import image_facts


def create(*names: str, partitions: int = 1, **fields: Any) -> CreateTopicsRequest:
    topics = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names]
    return CreateTopicsRequest(topics=topics, **{"timeout_ms": 1000, **fields})


def test_a_new_log_begins_with_the_levels_and_the_minimum_isr() -> None:
    """The first feature must be metadata.version, or Kafka's readers cannot read the rest."""
    log = new_memory_log()
    Controller(Settings(static_configs={"min.insync.replicas": "2"}), log, Clock())
    leader_change, first = decode_batches(log.log_bytes())
    assert leader_change.is_control
    assert isinstance(first.records[0], FeatureLevelRecord)
    assert first.records[0].name == "metadata.version"
    assert [(record.name, record.value) for record in first.records if isinstance(record, ConfigRecord)] == [
        ("min.insync.replicas", "2")
    ]
    assert log.end_offset == first.last_offset + 1


def test_a_log_that_holds_records_is_gone_on_with() -> None:
    cluster = DrivenCluster()
    cluster.create("t", 3, 2)
    before, end_offset = image_facts(cluster.image), cluster.log.end_offset
    cluster.restart()
    assert image_facts(cluster.image) == before
    assert cluster.log.end_offset == end_offset, "a start writes nothing"


def test_an_answer_says_where_its_records_stand_and_what_it_waits_for() -> None:
    cluster = DrivenCluster()
    end_offset = cluster.log.end_offset
    made = cluster.submit(create("a", "b", partitions=2))
    # two topics, each with a record of its own and two for its partitions
    assert (made.log_end_offset, made.record_offsets) == (end_offset, (end_offset, end_offset + 5))
    assert made.durable_at == cluster.log.end_offset == end_offset + 6
    read = cluster.submit(MetadataRequest(topics=None))
    assert (read.record_offsets, read.durable_at, read.log_end_offset) == (None, end_offset + 6, end_offset + 6)


def test_a_request_that_changes_nothing_writes_nothing() -> None:
    cluster = DrivenCluster()
    cluster.create("t")
    written = cluster.log.log_bytes()
    for request in (create("t"), create("u", validate_only=True), create("v", timeout_ms=0), create()):
        answer = cluster.submit(request)
        assert answer.record_offsets is None
    cluster.tick()
    assert cluster.log.log_bytes() == written


class FullLog(MemoryLog):
    """A log that fails when the test says that it is full."""

    full = False

    def append_batch(self, batch: BatchBuilder, timestamp_ms: int) -> tuple[int, int]:
        if self.full:
            raise LogError("the disk is full")
        return super().append_batch(batch, timestamp_ms)


def test_what_could_not_be_written_is_not_in_the_image() -> None:
    log = FullLog(new_memory_log().cluster_id, directory(3000), START_MS)
    cluster = DrivenCluster(log=log)
    before = image_facts(cluster.image)
    log.full = True
    with pytest.raises(LogError, match="the disk is full"):
        cluster.submit(create("t"))
    cluster.clock.advance(60_000)
    with pytest.raises(LogError, match="the disk is full"):
        cluster.tick()
    assert image_facts(cluster.image) == before


class ForeignLog(MemoryLog):
    """A log into which another process has written."""

    def read(self) -> Iterator[Batch]:
        yield from super().read()
        foreign = RemoveTopicRecord(topic_id=Uuid(b"x" * 16))
        yield Batch(1, 1, 1, START_MS, is_control=False, contents=[foreign], size_bytes=1)


def test_a_log_that_contradicts_itself_is_refused_at_the_start() -> None:
    log = ForeignLog(new_memory_log().cluster_id, directory(3000), START_MS)
    with pytest.raises(ReplayError):
        Controller(Settings(), log, Clock())


def test_a_bug_of_a_handler_costs_its_request_alone() -> None:
    """Here by a request that no decoder would make. The random generator may have advanced; image and log have not
    changed."""
    cluster = DrivenCluster()
    before, written = image_facts(cluster.image), cluster.log.log_bytes()
    good = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    bad = CreateTopicsRequest(topics=[good, CreatableTopic(name=5)], timeout_ms=1000)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        cluster.controller.submit(Call(create_topics.API, 7, bad, broker_id=1))
    assert image_facts(cluster.image) == before
    assert cluster.log.log_bytes() == written
    assert cluster.create("t").error_code == 0


def history(seed: int) -> DrivenCluster:
    cluster = DrivenCluster(4, seed=seed)
    cluster.create("t", 9, 3)
    cluster.submit(create("u", "v", "w", partitions=3))
    cluster.lose(2)
    cluster.create("x", 2, 2)
    cluster.come_back(2)
    return cluster


def test_one_seed_and_one_history_give_one_log() -> None:
    assert history(5).log.log_bytes() == history(5).log.log_bytes()
    assert history(5).log.log_bytes() != history(6).log.log_bytes()


def test_after_a_restart_the_seed_gives_other_ids_than_before() -> None:
    cluster = DrivenCluster(0)
    ids = {cluster.controller.context(Call(metadata.API, 0, MetadataRequest()), 0).new_uuid() for _ in range(5)}
    cluster.join(1)
    cluster.restart()
    ids |= {cluster.controller.context(Call(metadata.API, 0, MetadataRequest()), 0).new_uuid() for _ in range(5)}
    assert len(ids) == 10


def test_time_alone_writes_nothing_while_brokers_beat() -> None:
    cluster = DrivenCluster()
    cluster.create("t", 5, 3)
    written = cluster.log.log_bytes()
    cluster.pass_time(120_000)
    assert cluster.log.log_bytes() == written


def test_records_carry_the_time_at_which_they_were_written() -> None:
    cluster = DrivenCluster()
    cluster.clock.advance(1234)
    cluster.create("t")
    *_, last = decode_batches(cluster.log.log_bytes())
    assert last.timestamp_ms == START_MS + 1234


def test_what_is_served_depends_on_the_listener_and_the_version() -> None:
    brokers, controllers = SERVED.tables["broker"], SERVED.tables["controller"]
    assert brokers[metadata.API.key].answered == range(14)
    assert metadata.API.key not in controllers
    assert 0 in controllers[describe_cluster.API.key].answered


def test_a_broker_that_goes_down_under_many_partitions_with_records_is_work_for_later() -> None:
    partitions = PARTITIONS_PER_STEP + 1
    cluster = DrivenCluster(2)
    cluster.create_at("t", *[[1, 2]] * partitions)
    topic, data = cluster.image.topics_by_name["t"], cluster.data
    produced = read_produced(batch(), api_version=11, max_message_bytes=1000)
    assert isinstance(produced, ProducedBatch)
    for index in range(partitions):
        data.append(cluster.image, topic, index, produced, START_MS)
    cluster.tick()
    seen = [cluster.controller.has_work]
    cluster.set_down([2])
    seen.append(cluster.controller.has_work)
    cluster.controller.work()
    seen.append(cluster.controller.has_work)
    assert seen == [False, True, False]
    for index in range(partitions):
        data.append(cluster.image, topic, index, produced, START_MS)
    assert {log.lag(2, START_MS + 1000) for log in data.partitions_of(topic.topic_id).values()} == {1}


class WatchedLog(MemoryLog):
    """A log that stores the metadata.version of the batches that it gets."""

    levels: tuple[int, ...] = ()

    def append_batch(self, batch: BatchBuilder, timestamp_ms: int) -> tuple[int, int]:
        self.levels += (batch.metadata_version,)
        return super().append_batch(batch, timestamp_ms)


def test_records_are_written_for_the_metadata_version_of_the_image() -> None:
    """A start refuses every version but the newest: here the version changes while the controller runs."""
    log = WatchedLog(new_memory_log().cluster_id, directory(3000), START_MS)
    cluster = DrivenCluster(log=log)
    assert set(log.levels) == {LATEST_METADATA_VERSION}, "also before the first record that says so"
    cluster.image.features[METADATA_VERSION] = 23
    cluster.create("t")
    assert log.levels[-1] == 23


def test_subscribers_are_told_what_each_batch_touched_in_the_order_in_which_they_came() -> None:
    cluster = DrivenCluster()
    reported: list[tuple[str, list[str], int]] = []
    for name in ("first", "second"):

        def follow(delta: Delta, name: str = name) -> None:
            assert cluster.image.next_offset == delta.end_offset, "it is replayed"
            reported.append((name, [topic.name for topic in delta.new_topics], delta.end_offset))

        cluster.controller.subscribe(follow)
    cluster.submit(create("t"))
    cluster.submit(MetadataRequest(topics=None))
    assert reported == [(name, ["t"], cluster.log.end_offset) for name in ("first", "second")]
