"""Retention and compaction of the topics of a cluster, as time passes: when they happen, by which configs, and that no
acknowledged record goes unless one of them, or a client, removes it."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from klamm.broker import cleanup
from klamm.broker.data import retention
from klamm.broker.data.record_contents import RecordContents, decode_records, split_batches
from klamm.broker.data.record_room import ENTRY_BYTES
from klamm.controller.data_limits import DataLimits
from klamm.protocol.error_codes import ErrorCode
from klamm.protocol.messages.configs import incremental_alter_configs as altering
from klamm.protocol.messages.topics.create_topics import CreatableTopicConfig
from klamm.protocol.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.broker.data.batches import batch, record
from tests.broker.handlers.data_requests import fetch, produce
from tests.controller.handlers.cluster import DrivenCluster

ALL = 1 << 30
Pair = tuple[bytes | None, bytes | None]


class Cleaned:
    """A cluster whose brokers tick ten times a second, and its topic t, led by broker 1."""

    def __init__(
        self, data_limits: DataLimits | None = None, static: dict[str, str] | None = None, **configs: str
    ) -> None:
        self.cluster = DrivenCluster(2, configs=static, data_limits=data_limits or DataLimits())
        entries = [CreatableTopicConfig(name=dotted(name), value=value) for name, value in configs.items()]
        assert self.cluster.create_at("t", [1, 2], configs=entries).error_code == 0
        self.cluster.brokers.tick()

    @property
    def now_ms(self) -> int:
        return self.cluster.clock.now_ms

    def wait(self, milliseconds: int) -> None:
        until = self.now_ms + milliseconds
        while self.now_ms < until:
            self.cluster.pass_time(min(100, until - self.now_ms))
            self.cluster.brokers.tick()

    def put(self, *pairs: Pair, **fields: Any) -> Any:
        records = [record(index, key=key, value=value) for index, (key, value) in enumerate(pairs)]
        return produce(self.cluster, batch(records, timestamp_ms=self.now_ms), **fields)

    def set_configs(self, **configs: str) -> None:
        changes = [
            altering.AlterableConfig(name=dotted(name), config_operation=0, value=value)
            for name, value in configs.items()
        ]
        resource = altering.AlterConfigsResource(resource_type=2, resource_name="t", configs=changes)
        answer = self.cluster.ask(altering.IncrementalAlterConfigsRequest(resources=[resource]))
        assert answer.responses[0].error_code == 0

    def read(self) -> list[RecordContents]:
        """All records, as a consumer gets them."""
        (found,) = fetch(self.cluster, self.start, partition_max_bytes=ALL)
        assert found.error_code == 0
        return [
            one
            for each in split_batches(found.records or b"")
            for one in decode_records(each, ALL)
            if one.offset >= self.start
        ]

    @property
    def offsets(self) -> list[int]:
        return [one.offset for one in self.read()]

    @property
    def start(self) -> int:
        found = self.cluster.data.find(self.cluster.image.topics_by_name["t"].topic_id, 0)
        return found.log.log_start_offset if found else 0


def dotted(name: str) -> str:
    return name.replace("_", ".")


def test_retention_is_checked_after_half_a_minute_and_then_every_five() -> None:
    topic = Cleaned(retention_ms="1000")
    assert topic.put((b"k", b"v")).error_code == 0
    topic.wait(29_900)
    assert topic.offsets == [0]
    topic.wait(100)
    assert (topic.offsets, topic.start) == ([], 1)
    assert fetch(topic.cluster, 0)[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert topic.put((b"k", b"v")).base_offset == 1
    topic.wait(299_900)
    assert topic.offsets == [1]
    topic.wait(200)
    assert topic.offsets == []


def test_configs_that_change_take_effect() -> None:
    topic = Cleaned(static={"log.retention.check.interval.ms": "1000"}, segment_ms="1000")
    for _ in range(4):
        topic.put((b"k", bytes(1000)))
        topic.wait(2000)
    topic.wait(30_000)
    assert topic.offsets == [0, 1, 2, 3]
    topic.set_configs(retention_bytes="2500")
    topic.wait(1100)
    assert topic.offsets == [1, 2, 3]
    topic.set_configs(retention_bytes="-1", retention_ms="37000")
    topic.wait(1000)
    assert topic.offsets == [2, 3]
    topic.set_configs(retention_ms="-1", cleanup_policy="compact", min_cleanable_dirty_ratio="0")
    topic.wait(20_000)
    assert topic.offsets == [2, 3], "one is compacted, one is active"
    topic.set_configs(segment_ms="1")
    topic.put((b"k", b"v"))
    topic.wait(20_000)
    assert topic.offsets == [3, 4]


def test_a_compacted_topic_is_cleaned_after_each_rest_of_the_cleaner() -> None:
    topic = Cleaned(
        static={"log.cleaner.backoff.ms": "5000"},
        cleanup_policy="compact",
        segment_ms="100",
        min_cleanable_dirty_ratio="0.1",
    )
    for _ in range(3):
        topic.put((b"k", b"v"))
        topic.wait(200)
    topic.wait(4000)
    assert topic.offsets == [0, 1, 2]
    topic.wait(600)
    assert topic.offsets == [1, 2], "the newest is in the active segment"
    assert topic.start == 0
    assert [one.base_offset for one in split_batches(fetch(topic.cluster, 0)[0].records or b"")] == [1, 2]


def test_without_the_cleaner_nothing_is_compacted() -> None:
    topic = Cleaned(
        static={"log.cleaner.enable": "false", "log.cleaner.backoff.ms": "100"},
        cleanup_policy="compact",
        segment_ms="100",
    )
    for _ in range(3):
        topic.put((b"k", b"v"))
        topic.wait(2000)
    assert topic.offsets == [0, 1, 2]


def test_with_both_policies_the_cleaner_applies_retention() -> None:
    topic = Cleaned(
        static={"log.cleaner.backoff.ms": "1000"},
        cleanup_policy="compact,delete",
        retention_ms="5000",
        segment_ms="100",
        min_cleanable_dirty_ratio="0",
    )
    for key in (b"a", b"b", b"b", b"c"):
        topic.put((key, b"v"))
        topic.wait(1000)
    assert topic.offsets == [0, 2, 3]
    topic.wait(3500)
    assert (topic.offsets, topic.start) == ([3], 3)


def test_a_partition_whose_leader_is_down_keeps_its_records() -> None:
    topic = Cleaned(static={"log.retention.check.interval.ms": "1000"}, retention_ms="1000")
    topic.put((b"k", b"v"))
    topic.cluster.set_down({1, 2})
    topic.wait(40_000)
    topic.cluster.set_down(())
    assert topic.start == 0
    topic.wait(1_100)
    assert topic.start == 1


def test_records_go_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "BATCHES_PER_TICK", 4)
    topic = Cleaned(retention_ms="1000")
    for _ in range(10):
        topic.put((b"k", b"v"))
    starts = []
    topic.wait(29_900)
    for _ in range(4):
        topic.wait(100)
        starts.append(topic.start)
    assert starts == [4, 8, 10, 10]


def test_many_partitions_are_checked_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "PARTITIONS_PER_TICK", 2)
    topic = Cleaned(retention_ms="1000")
    configs = [CreatableTopicConfig(name="retention.ms", value="1000")]
    assert topic.cluster.create_at("u", *[[1, 2]] * 5, configs=configs).error_code == 0
    for index in range(5):
        assert topic.put((b"k", b"v"), topic_name="u", partition=index).error_code == 0
    logs = topic.cluster.data.partitions_of(topic.cluster.image.topics_by_name["u"].topic_id)
    topic.wait(29_900)
    left = []
    for _ in range(3):
        topic.wait(100)
        left.append(sum(not found.log.log_start_offset for found in logs.values()))
    assert left == [3, 1, 0]


class Acknowledged(RuleBasedStateMachine):
    """Beside a plain list: every record that was acknowledged is read back until a rule of its topic removes it."""

    @initialize(
        memory=st.integers(2_000, 20_000),
        file=st.sampled_from([0, 3_000, ALL]),
        policy=st.sampled_from(["delete", "compact", "compact,delete"]),
        retention_ms=st.sampled_from([-1, 3_000, 60_000]),
        retention_bytes=st.sampled_from([-1, 500]),
    )
    def begin(self, memory: int, file: int, policy: str, retention_ms: int, retention_bytes: int) -> None:
        self.topic = Cleaned(
            DataLimits(memory_bytes=memory, file_bytes=file),
            {"log.retention.check.interval.ms": "1000", "log.cleaner.backoff.ms": "1000"},
            cleanup_policy=policy,
            segment_ms="1000",
            retention_ms=str(retention_ms),
            retention_bytes=str(retention_bytes),
            min_cleanable_dirty_ratio="0",
        )
        self.compacts, self.deletes = "compact" in policy, "delete" in policy
        self.retention_ms, self.retention_bytes = retention_ms, retention_bytes
        self.written: list[tuple[int, Pair, int]] = []
        self.sizes: dict[int, int] = {}
        self.deleted_before = self.refused = 0

    @rule(
        keys=st.lists(st.sampled_from([b"a", b"b", b"c"]), min_size=1, max_size=3),
        size=st.integers(1, 400),
        times=st.integers(1, 5),
    )
    def write(self, keys: Sequence[bytes], size: int, times: int) -> None:
        for _ in range(times):
            pairs = [(key, bytes(size)) for key in keys]
            answer = self.topic.put(*pairs)
            if answer.error_code:
                assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
                room = self.topic.cluster.data.room
                assert room.used_bytes + len(keys) * (size + 30) + 61 + ENTRY_BYTES > room.memory_bytes
                return
            for place, pair in enumerate(pairs):
                self.written.append((answer.base_offset + place, pair, self.topic.now_ms))

    @rule(milliseconds=st.sampled_from([100, 1_500, 31_000]))
    def wait(self, milliseconds: int) -> None:
        self.topic.wait(milliseconds)

    @rule(records=st.integers(1, 4))
    def delete_records(self, records: int) -> None:
        if self.deletes and self.written:
            offset = min(self.topic.start + records, self.written[-1][0] + 1)
            topic_id = self.topic.cluster.image.topics_by_name["t"].topic_id
            self.topic.cluster.data.delete_before(topic_id, 0, offset, self.topic.now_ms)
            self.deleted_before = max(self.deleted_before, offset)

    @invariant()
    def every_record_is_there_or_a_rule_has_removed_it(self) -> None:
        if not hasattr(self, "topic"):
            return
        found = {one.offset: (one.key, one.value) for one in self.topic.read()}
        newest = {pair[0]: offset for offset, pair, _ in self.written}
        for offset, pair, written_ms in self.written:
            if offset in found:
                assert found[offset] == pair
            elif offset >= self.topic.start:
                assert self.compacts
                assert offset < newest[pair[0]], "it is the newest of its key"
            elif offset >= self.deleted_before:
                assert self.deletes
                is_old = 0 <= self.retention_ms < self.topic.now_ms - written_ms
                assert is_old or self.retention_bytes >= 0
        assert len(found) <= len(self.written)
        assert self.topic.cluster.data.room.file.used_bytes <= self.topic.cluster.data.room.file.max_bytes


def test_what_is_acknowledged_stays_until_a_rule_removes_it() -> None:
    run_state_machine_as_test(Acknowledged, settings=settings(max_examples=40, stateful_step_count=25))


def test_very_many_segments_go_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "MAX_SEGMENTS", 2)
    topic = Cleaned(retention_ms="1000", segment_ms="1")
    for _ in range(7):
        topic.put((b"k", b"v"))
        topic.wait(100)
    topic.wait(29_300)
    assert topic.offsets == []


def test_a_topic_may_be_deleted_while_its_records_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "BATCHES_PER_TICK", 4)
    topic = Cleaned(retention_ms="1000")
    for _ in range(10):
        topic.put((b"k", b"v"))
    topic.wait(30_000)
    assert topic.start == 4
    answer = topic.cluster.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000))
    assert answer.responses[0].error_code == 0
    topic.wait(200)
    assert not topic.cluster.brokers.is_cleaning
