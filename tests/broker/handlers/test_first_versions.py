"""The versions of the brokers' APIs that Apache Kafka 4.0 removed (KIP-896), each with what it means."""

from typing import Any

import pytest

from klamm.controller.releases import RELEASES, Emulation
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.data.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.messages.offsets.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.messages.offsets.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from klamm.protocol.messages.topics.create_topics import CreatableTopicConfig
from tests.broker.data.batches import HEADER_BYTES, ZSTD, batch, record
from tests.broker.data.message_sets import message, messages_in, wrapped
from tests.broker.handlers.data_requests import fetch, produce, read
from tests.controller.handlers.cluster import START_MS, DrivenCluster

WITH_ZOOKEEPER, WITH_KRAFT = Emulation(RELEASES["2.1"]), Emulation(RELEASES["3.3"])
BY_SECOND_BROKER = 2
LATEST, EARLIEST = -1, -2


def new_cluster(emulation: Emulation = WITH_ZOOKEEPER, **configs: str) -> DrivenCluster:
    cluster = DrivenCluster(2, emulation=emulation)
    entries = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()]
    assert cluster.create_at("t", [1, 2], configs=entries).error_code == 0
    return cluster


# Produce and Fetch


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_message_sets_are_written_as_one_batch(version: int, magic: int) -> None:
    cluster = new_cluster()
    data = message(value=b"a", magic=magic, timestamp_ms=START_MS) + message(None, None, magic=magic, timestamp_ms=5)
    answers = [produce(cluster, data, version=version) for _ in range(2)]
    assert [(one.error_code, one.base_offset, one.log_append_time_ms) for one in answers] == [(0, 0, -1), (0, 2, -1)]
    stored = read(cluster)
    assert [stored[at + 16] for at in (0, len(stored) // 2)] == [2, 2]
    for fetch_version in range(4):
        (answer,) = fetch(cluster, 0, version=fetch_version)
        found = messages_in(bytes(answer.records or b""))
        assert [(one.offset, one.key, one.value) for one in found] == [
            (0, b"k", b"a"), (1, None, None), (2, b"k", b"a"), (3, None, None)
        ]  # fmt: skip
        assert {one.magic for one in found} == {0 if fetch_version < 2 else 1}
        assert [one.timestamp_ms for one in found[:2]] == ([START_MS, 5] if magic and fetch_version > 1 else [-1, -1])
        assert answer.high_watermark == 4


def test_compressed_messages_stay_compressed() -> None:
    cluster = new_cluster()
    assert produce(cluster, wrapped([message(value=b"v" * 200)] * 3), version=2).base_offset == 0
    stored = read(cluster)
    assert stored[22] == 1
    assert len(stored) < 200
    (answer,) = fetch(cluster, 0, version=3)
    assert bytes(answer.records or b"")[17] == 1
    assert [one.offset for one in messages_in(bytes(answer.records or b""))] == [0, 1, 2]


CASES: list[tuple[str, bytes, ErrorCode, dict[str, str]]] = [
    ("a wrong checksum", message(crc=3), ErrorCode.CORRUPT_MESSAGE, {}),
    ("no key in a compacted topic", message(None), ErrorCode.CORRUPT_MESSAGE, {"cleanup_policy": "compact"}),
    ("log append time", message(attributes=8, timestamp_ms=-1), ErrorCode.INVALID_TIMESTAMP, {}),
    ("an old timestamp", message(), ErrorCode.INVALID_TIMESTAMP, {"message_timestamp_difference_max_ms": "1000"}),
    ("a long message", message(value=bytes(200)), ErrorCode.MESSAGE_TOO_LARGE, {"max_message_bytes": "200"}),
    ("long as a batch", message(value=bytes(70)), ErrorCode.MESSAGE_TOO_LARGE, {"max_message_bytes": "120"}),
]


@pytest.mark.parametrize(("data", "code", "configs"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_bad_messages_are_refused(data: bytes, code: ErrorCode, configs: dict[str, str]) -> None:
    cluster = new_cluster(WITH_ZOOKEEPER, **configs)
    answer = produce(cluster, data, version=2)
    assert (answer.error_code, answer.base_offset) == (code, -1)
    assert read(cluster) == b""


@pytest.mark.parametrize(("name", "code"), [("2.1", ErrorCode.CORRUPT_MESSAGE), ("2.4", ErrorCode.INVALID_RECORD)])
def test_the_code_of_invalid_records(name: str, code: ErrorCode) -> None:
    cluster = new_cluster(Emulation(RELEASES[name]), cleanup_policy="compact")
    for version, records in ((2, message(None)), (3, batch([record(key=None)], timestamp_ms=START_MS))):
        assert produce(cluster, records, version=version).error_code == code


def test_no_message_is_no_error() -> None:
    cluster = new_cluster()
    for records in (b"", None, message()[:20]):
        answer = produce(cluster, records, version=2)
        assert (answer.error_code, answer.base_offset) == (0, -1)
    assert produce(cluster, b"", version=2, broker_id=BY_SECOND_BROKER).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert produce(cluster, b"", version=3).error_code == ErrorCode.CORRUPT_MESSAGE


def test_only_the_first_versions_have_message_sets() -> None:
    cluster = new_cluster()
    assert produce(cluster, message(), version=3).error_code == ErrorCode.CORRUPT_MESSAGE
    assert produce(cluster, batch(2, timestamp_ms=START_MS), version=2).error_code == 0, "as some clients do"


def test_topics_with_other_rules_rewrite_messages() -> None:
    cluster = new_cluster(message_timestamp_type="LogAppendTime", compression_type="gzip")
    answer = produce(cluster, message(timestamp_ms=1), version=2)
    assert (answer.error_code, answer.log_append_time_ms) == (0, cluster.clock.now_ms)
    (found,) = fetch(cluster, 0, version=2)
    (one,) = messages_in(bytes(found.records or b""))
    assert (one.timestamp_ms, one.attributes) == (cluster.clock.now_ms, 8)


def test_large_message_sets_are_read() -> None:
    cluster = new_cluster()
    assert produce(cluster, message() * 2_500, version=2, acks=1).error_code == 0
    cluster.clock.advance(1_000)
    (answer,) = fetch(cluster, 2_400, version=3)
    assert len(messages_in(bytes(answer.records or b""))) == 100


@pytest.mark.parametrize(("version", "is_cut"), [(0, True), (2, True), (3, False)])
def test_a_record_longer_than_was_asked_for_is_cut_in_the_first_versions(version: int, is_cut: bool) -> None:
    cluster = new_cluster()
    assert produce(cluster, batch(1, value=bytes(300), timestamp_ms=START_MS)).error_code == 0
    (answer,) = fetch(cluster, 0, version=version, partition_max_bytes=100)
    records = bytes(answer.records or b"")
    if is_cut:
        assert 12 <= len(records) <= 100
        assert int.from_bytes(records[8:12], "big") > 100 - 12
        (nothing,) = fetch(cluster, 1, version=version, partition_max_bytes=100)
        assert nothing.records == b""
    else:
        assert messages_in(records)[0].value == bytes(300)


def test_zstd_is_refused_for_clients_that_do_not_know_it() -> None:
    cluster = new_cluster(compression_type="zstd")
    assert produce(cluster, batch(1, timestamp_ms=START_MS)).error_code == 0
    (answer,) = fetch(cluster, 0, version=3)
    assert (answer.error_code, answer.records) == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, b"")
    assert read(cluster)[22] == ZSTD


def test_old_fetches_begin_with_the_offset_that_was_asked_for() -> None:
    cluster = new_cluster()
    assert produce(cluster, batch(4, timestamp_ms=START_MS)).error_code == 0
    (answer,) = fetch(cluster, 2, version=3)
    assert [one.offset for one in messages_in(bytes(answer.records or b""))] == [2, 3]
    assert len(read(cluster)) > HEADER_BYTES


# ListOffsets v0


def list_offsets(cluster: DrivenCluster, timestamp: int, most: int = 10, **fields: Any) -> Any:
    one = ListOffsetsPartition(partition_index=0, timestamp=timestamp, max_num_offsets=most)
    topic = ListOffsetsTopic(name=fields.pop("topic_name", "t"), partitions=[one])
    response = cluster.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), version=0, **fields)
    return response.topics[0].partitions[0]


def test_offsets_of_segments() -> None:
    cluster = new_cluster(segment_bytes=str(1024 * 1024))
    assert list(list_offsets(cluster, LATEST).old_style_offsets) == [0]
    begin_ms = cluster.clock.now_ms
    for _ in range(3):
        cluster.clock.advance(100)
        assert produce(cluster, batch(1, value=bytes(600_000), timestamp_ms=START_MS)).error_code == 0
    assert list(list_offsets(cluster, LATEST).old_style_offsets) == [3, 2, 1, 0]
    assert list(list_offsets(cluster, LATEST, 2).old_style_offsets) == [3, 2]
    assert list(list_offsets(cluster, LATEST, 1).old_style_offsets) == [3]
    assert list(list_offsets(cluster, LATEST, 0).old_style_offsets) == []
    assert list(list_offsets(cluster, EARLIEST).old_style_offsets) == [0]
    # By the time at which a segment was written last.
    assert list(list_offsets(cluster, begin_ms + 99).old_style_offsets) == []
    assert list(list_offsets(cluster, begin_ms + 100).old_style_offsets) == [0]
    assert list(list_offsets(cluster, begin_ms + 250).old_style_offsets) == [1, 0]
    cluster.clock.advance(1)
    assert list(list_offsets(cluster, begin_ms + 10_000).old_style_offsets) == [3, 2, 1, 0]


def test_offsets_of_segments_end_with_the_high_watermark() -> None:
    cluster = new_cluster()
    assert produce(cluster, batch(2, timestamp_ms=START_MS)).error_code == 0
    cluster.set_down([2])
    assert produce(cluster, batch(2, timestamp_ms=START_MS), acks=1).error_code == 0
    assert list(list_offsets(cluster, LATEST).old_style_offsets) == [2, 0]


def test_errors_of_list_offsets() -> None:
    cluster = new_cluster()
    assert list_offsets(cluster, LATEST, topic_name="u").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert list_offsets(cluster, LATEST, broker_id=2).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert list_offsets(cluster, -3).error_code == ErrorCode.UNSUPPORTED_VERSION


# OffsetCommit v0 and OffsetFetch v0


def commit(cluster: DrivenCluster, offset: int, *, broker_id: int = 1, version: int = 0, **fields: Any) -> ErrorCode:
    topic_name, index = fields.pop("topic_name", "t"), fields.pop("index", 0)
    one = OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, **fields)
    topic = OffsetCommitRequestTopic(name=topic_name, partitions=[one])
    response = cluster.ask(OffsetCommitRequest(group_id="g", topics=[topic]), version=version, broker_id=broker_id)
    return ErrorCode(response.topics[0].partitions[0].error_code)


def fetched(cluster: DrivenCluster, *, broker_id: int = 1, **fields: Any) -> tuple[int, int]:
    topic = OffsetFetchRequestTopic(name=fields.get("topic_name", "t"), partition_indexes=[fields.get("index", 0)])
    request = OffsetFetchRequest(group_id=fields.get("group_id", "g"), topics=[topic])
    response = cluster.ask(request, version=0, broker_id=broker_id)
    one = response.topics[0].partitions[0]
    return one.committed_offset, one.error_code


def test_the_first_offsets_are_known_to_every_broker() -> None:
    cluster = new_cluster()
    unknown = -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert fetched(cluster) == unknown
    assert commit(cluster, 7, committed_metadata="m") is ErrorCode.NONE
    assert commit(cluster, 8, broker_id=2) is ErrorCode.NONE
    assert fetched(cluster) == fetched(cluster, broker_id=2) == (8, 0)
    assert fetched(cluster, group_id="h") == fetched(cluster, index=1) == fetched(cluster, topic_name="u") == unknown
    assert commit(cluster, 1, index=1) is commit(cluster, 1, topic_name="u") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(cluster, 1, committed_metadata="m" * 4097) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert commit(cluster, 1, committed_metadata="m" * 4096) is ErrorCode.NONE


def test_brokers_with_kraft_have_no_such_offsets() -> None:
    cluster = new_cluster(WITH_KRAFT)
    assert commit(cluster, 7) is ErrorCode.UNSUPPORTED_VERSION
    assert fetched(cluster) == (-1, ErrorCode.UNSUPPORTED_VERSION)


def test_the_first_offsets_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("klamm.broker.zookeeper_offsets.MAX_OFFSETS", 1)
    cluster = new_cluster()
    assert cluster.create_at("u", [1]).error_code == 0
    assert commit(cluster, 7) is ErrorCode.NONE
    assert commit(cluster, 7, topic_name="u") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert commit(cluster, 9) is ErrorCode.NONE
    assert fetched(cluster) == (9, 0)
    monkeypatch.setattr("klamm.broker.zookeeper_offsets.MAX_OFFSETS", 2)
    monkeypatch.setattr("klamm.broker.zookeeper_offsets.MAX_BYTES", 415)
    assert commit(cluster, 7, topic_name="u") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    monkeypatch.setattr("klamm.broker.zookeeper_offsets.MAX_BYTES", 416)
    assert commit(cluster, 7, topic_name="u") is ErrorCode.NONE


def test_no_older_format_for_a_topic_without_down_conversion() -> None:
    cluster = new_cluster(Emulation(RELEASES["3.9"]), **{"message.downconversion.enable": "false"})
    assert produce(cluster, batch([record(value=b"a")]), version=3).error_code == 0
    for version in range(5):
        (answer,) = fetch(cluster, 0, version=version)
        code = ErrorCode.UNSUPPORTED_VERSION if version < 4 else ErrorCode.NONE
        assert (answer.error_code, bool(answer.records)) == (code, version >= 4)


def test_timestamps_that_differ_too_much_from_the_time_of_the_broker() -> None:
    cluster = new_cluster(Emulation(RELEASES["3.3"]), **{"message.timestamp.difference.max.ms": "1000"})
    for difference, code in ((1000, 0), (-1000, 0), (1001, 32), (-1001, 32)):
        data = message(timestamp_ms=START_MS + difference, magic=1)
        assert produce(cluster, data, version=2).error_code == code, difference
