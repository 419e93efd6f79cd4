"""Produce: every error with its code, what acks=all waits for, and that no record is acknowledged that may be lost."""

from collections.abc import Callable
from typing import Any

import pytest

from klamm.broker.data.record_room import ENTRY_BYTES
from klamm.controller.core import Call
from klamm.controller.data_limits import DataLimits
from klamm.controller.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from klamm.controller.outcome import NoReply
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.configs import incremental_alter_configs
from klamm.protocol.messages.data import produce as messages
from klamm.protocol.messages.topics.create_topics import CreatableTopicConfig
from klamm.protocol.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.broker.data.batches import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL, batch, record
from tests.broker.handlers.data_requests import ALL, ONE_SECOND, Asked, fetch, produce, produce_request, read
from tests.controller.handlers.cluster import START_MS, DrivenCluster

MINUTE_MS = 60_000
SLOW = DataLimits(replication_rate=100)
MIN_ISR_2 = CreatableTopicConfig(name="min.insync.replicas", value="2")
GOOD = batch(2, timestamp_ms=START_MS)


def new_cluster(**fields: Any) -> DrivenCluster:
    """Topic t: partition 0 led by broker 1, partition 1 by broker 2; broker 4 has no replica."""
    cluster = DrivenCluster(4, **fields)
    assert cluster.create_at("t", [1, 2, 3], [2, 1, 3]).error_code == 0
    return cluster


def configured(cluster: DrivenCluster, **configs: str) -> None:
    """Topic u, led by broker 1."""
    entries = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()]
    assert cluster.create_at("u", [1, 2, 3], configs=entries).error_code == 0


def isr_of(cluster: DrivenCluster, topic_name: str = "t") -> list[int]:
    return sorted(cluster.partitions(topic_name)[0].isr)


@pytest.mark.parametrize("version", messages.API.versions)
@pytest.mark.parametrize("acks", [ALL, 1])
def test_batches_are_written_one_behind_the_other(version: int, acks: int) -> None:
    cluster = new_cluster()
    answers = [produce(cluster, GOOD, acks=acks, version=version) for _ in range(3)]
    assert [(one.error_code, one.base_offset, one.log_append_time_ms) for one in answers] == [
        (0, base_offset, -1) for base_offset in (0, 2, 4)
    ]
    assert {one.log_start_offset for one in answers} == {0 if version >= 5 else -1}
    assert len(read(cluster)) == 3 * len(GOOD)


CASES: list[tuple[str, int, dict[str, Any]]] = [
    ("unknown topic", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, {"topic_name": "nope", "version": 12}),
    ("unknown topic id", ErrorCode.UNKNOWN_TOPIC_ID, {"topic_name": "nope", "version": 13}),
    ("unknown partition", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, {"partition": 2}),
    ("negative partition", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, {"partition": -1}),
    ("acks of two", ErrorCode.INVALID_REQUIRED_ACKS, {"acks": 2}),
    ("acks of -2", ErrorCode.INVALID_REQUIRED_ACKS, {"acks": -2}),
    ("unknown topic and acks", ErrorCode.UNKNOWN_TOPIC_ID, {"topic_name": "nope", "acks": 2}),
    ("a follower", ErrorCode.NOT_LEADER_OR_FOLLOWER, {"broker_id": 2}),
    ("a broker without a replica", ErrorCode.NOT_LEADER_OR_FOLLOWER, {"broker_id": 4}),
    ("no records", ErrorCode.INVALID_RECORD, {"records": None}),
    ("two batches", ErrorCode.INVALID_RECORD, {"records": GOOD + GOOD}),
    ("control records", ErrorCode.INVALID_RECORD, {"records": batch(attributes=CONTROL)}),
    ("old magic", ErrorCode.INVALID_RECORD, {"records": batch(magic=1)}),
    ("wrong checksum", ErrorCode.CORRUPT_MESSAGE, {"records": batch(crc=7)}),
    ("new magic", ErrorCode.CORRUPT_MESSAGE, {"records": batch(magic=3)}),
    ("too large", ErrorCode.MESSAGE_TOO_LARGE, {"records": batch(value=b"v" * 1_048_588)}),
    ("zstd before version 7", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, {"records": batch(attributes=4), "version": 6}),
    ("a transaction", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, {"records": batch(attributes=TRANSACTIONAL)}),
    (
        "a transaction with an id",
        ErrorCode.NOT_ENOUGH_REPLICAS,
        {"records": batch(attributes=TRANSACTIONAL), "transactional_id": "x"},
    ),
    ("a time to come", ErrorCode.INVALID_TIMESTAMP, {"records": batch(timestamp_ms=START_MS + 61 * MINUTE_MS)}),
]


@pytest.mark.parametrize(("what", "code", "fields"), CASES, ids=[case[0] for case in CASES])
def test_what_is_refused_has_its_code_and_leaves_no_trace(what: str, code: int, fields: dict[str, Any]) -> None:
    cluster = new_cluster()
    answer = produce(cluster, **{"records": GOOD, **fields})
    assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (code, -1, -1), what
    assert produce(cluster, GOOD).base_offset == 0
    assert cluster.data.size_bytes == len(GOOD)


LOG_IS_TOLD: dict[str, tuple[bytes | None, bool]] = {
    "no records": (None, False),
    "two batches": (GOOD + GOOD, False),
    "old magic": (batch(magic=1), False),
    "wrong checksum": (batch(crc=7), False),
    "too large": (batch(value=b"v" * 1_048_588), False),
    "control records": (batch(attributes=CONTROL), True),
    "base offset": (b"\0" * 7 + b"\5" + GOOD[8:], True),
    "count": (batch(2, record_count=3), True),
    "no sequence number": (batch(producer_id=1, producer_epoch=0, base_sequence=-1), True),
    "a time to come": (batch(timestamp_ms=START_MS + 61 * MINUTE_MS), True),
}


@pytest.mark.parametrize(("records", "told"), LOG_IS_TOLD.values(), ids=LOG_IS_TOLD.keys())
def test_where_the_log_begins_is_told_of_what_the_log_finds_invalid(records: bytes | None, told: bool) -> None:
    """As recorded from Apache Kafka 4.3, which checks checksums and sizes before it uses the log."""
    answer = produce(new_cluster(), records)
    assert answer.error_code != 0
    assert answer.log_start_offset == (0 if told else -1)


def test_records_to_blame_are_named() -> None:
    cluster = new_cluster()
    configured(cluster, cleanup_policy="compact")
    keyless = batch([record(0), record(1, key=None)])
    answer = produce(cluster, keyless, topic_name="u")
    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.INVALID_RECORD, 0)
    assert [one.batch_index for one in answer.record_errors] == [1]
    assert produce(cluster, keyless, topic_name="u", version=7).error_code == ErrorCode.INVALID_RECORD
    assert produce(cluster, batch(2), topic_name="u").error_code == 0


def test_the_topic_s_own_configs_count() -> None:
    cluster = new_cluster()
    configured(cluster, max_message_bytes="100", message_timestamp_type="LogAppendTime")
    assert produce(cluster, batch(value=bytes(100)), topic_name="u").error_code == ErrorCode.MESSAGE_TOO_LARGE
    cluster.clock.advance(7)
    assert produce(cluster, batch(), topic_name="u").log_append_time_ms == START_MS + 7
    stamped = batch(attributes=LOG_APPEND_TIME)
    assert produce(cluster, stamped, topic_name="u").error_code == ErrorCode.INVALID_TIMESTAMP
    assert read(cluster, topic_name="u")[35:43] == (START_MS + 7).to_bytes(8, "big")  # its latest timestamp


def test_only_kafka_s_admin_client_writes_to_internal_topics() -> None:
    cluster = new_cluster()
    cluster.create_at("__consumer_offsets", [1])
    request = produce_request(cluster, batch(), topic_name="__consumer_offsets")
    answers = [
        cluster.controller.submit(Call(messages.API, 12, request, "broker", 1, client_id)).response
        for client_id in ("test", "__admin_client")
    ]
    assert [one.responses[0].partition_responses[0].error_code for one in answers] == [  # type: ignore[union-attr]
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.NONE,
    ]


@pytest.mark.parametrize("version", [9, 10, 13])
def test_who_asks_the_wrong_broker_is_told_the_right_one(version: int) -> None:
    cluster = new_cluster()
    request = produce_request(cluster, GOOD, GOOD)
    response = cluster.ask(request, version=version)
    first, second = response.responses[0].partition_responses
    assert (first.error_code, second.error_code) == (0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    reported = version >= 10
    assert (second.current_leader.leader_id, second.current_leader.leader_epoch) == ((2, 0) if reported else (-1, -1))
    assert [(one.node_id, one.host, one.port) for one in response.node_endpoints] == (
        [(2, "127.0.0.1", 9002)] if reported else []
    )


def test_each_leader_is_told_once_and_only_where_it_is_reached() -> None:
    cluster = DrivenCluster(2)
    cluster.join(3, listeners=[])
    assert cluster.create_at("t", [2], [2], [3]).error_code == 0
    response = cluster.ask(produce_request(cluster, GOOD, GOOD, GOOD))
    assert [one.current_leader.leader_id for one in response.responses[0].partition_responses] == [2, 2, 3]
    assert [one.node_id for one in response.node_endpoints] == [2]


def test_without_acks_there_is_no_answer_and_a_refusal_ends_the_connection() -> None:
    cluster = new_cluster()
    assert Asked(cluster, produce_request(cluster, GOOD, acks=0)).wants_no_answer
    with pytest.raises(NoReply, match="NOT_LEADER_OR_FOLLOWER for partition 1") as refusal:
        cluster.submit(produce_request(cluster, GOOD, GOOD, acks=0))
    assert isinstance(refusal.value.unsent, messages.ProduceResponse), "the request log tells of it"
    assert len(read(cluster)) == 2 * len(GOOD)


def test_acks_of_all_wait_for_every_replica_in_sync() -> None:
    cluster = new_cluster(data_limits=SLOW)
    requested = Asked(cluster, produce_request(cluster, batch(50)))
    assert requested.look() is None
    assert requested.waiting.retry_at_ms == START_MS + 499
    cluster.clock.advance(498)
    assert requested.look() is None
    cluster.clock.advance(1)
    answer = requested.look().responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert produce(cluster, batch(50), acks=1).base_offset == 50


def test_what_is_not_replicated_in_time_is_told_so_and_the_rest_is_acknowledged() -> None:
    cluster = new_cluster(data_limits=SLOW)
    cluster.create_at("v", [1, 2], [1, 2])
    requested = Asked(cluster, produce_request(cluster, batch(10), batch(200), topic_name="v"))
    cluster.clock.advance(ONE_SECOND - 1)
    assert requested.look() is None
    assert requested.waiting.retry_at_ms == START_MS + ONE_SECOND
    cluster.clock.advance(1)
    answers = requested.look().responses[0].partition_responses
    assert [(one.error_code, one.base_offset) for one in answers] == [(0, 0), (ErrorCode.REQUEST_TIMED_OUT, 0)]


def test_what_was_acknowledged_once_stays_so_while_the_rest_is_waited_for() -> None:
    cluster = new_cluster(data_limits=SLOW)
    assert cluster.create_at("v", [1, 2], [1, 3], configs=[MIN_ISR_2]).error_code == 0
    cluster.set_down([3])
    requested = Asked(cluster, produce_request(cluster, batch(10), batch(10), topic_name="v", timeout_ms=12_000))
    cluster.clock.advance(ONE_SECOND)
    assert requested.look() is None
    cluster.lose(2)
    cluster.clock.advance(12_000)
    answers = requested.look().responses[0].partition_responses
    assert [one.error_code for one in answers] == [0, ErrorCode.REQUEST_TIMED_OUT]


@pytest.mark.parametrize(("in_sync", "code"), [(2, ErrorCode.NONE), (1, ErrorCode.NOT_ENOUGH_REPLICAS)])
def test_with_too_few_in_sync_acks_of_all_are_refused_and_others_not(in_sync: int, code: int) -> None:
    cluster = new_cluster()
    configured(cluster, min_insync_replicas="2")
    cluster.lose(*(2, 3)[: 3 - in_sync])
    assert len(isr_of(cluster, "u")) == in_sync
    assert produce(cluster, batch(), topic_name="u").error_code == code
    assert produce(cluster, batch(), topic_name="u", acks=1).error_code == 0


def test_a_partition_with_fewer_replicas_than_the_minimum_needs_all_of_them() -> None:
    cluster = new_cluster(configs={"min.insync.replicas": "3"})
    cluster.create_at("v", [1, 2])
    assert produce(cluster, batch(), topic_name="v").error_code == 0
    cluster.lose(2)
    assert produce(cluster, batch(), topic_name="v").error_code == ErrorCode.NOT_ENOUGH_REPLICAS


@pytest.mark.parametrize(
    ("records", "code"),
    [(300, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND), (3_000, ErrorCode.REQUEST_TIMED_OUT)],
    ids=["before they were committed by all", "after"],
)
def test_too_few_in_sync_after_the_batch_was_written(records: int, code: int) -> None:
    """With too few in sync the high watermark does not advance (KIP-966), so only a committed batch has this error."""
    cluster = new_cluster(data_limits=SLOW)
    configured(cluster, min_insync_replicas="2")
    requested = Asked(cluster, produce_request(cluster, batch(records), topic_name="u", timeout_ms=MINUTE_MS))
    assert requested.look() is None
    cluster.lose(2, 3)
    if code == ErrorCode.REQUEST_TIMED_OUT:
        assert requested.look() is None
        cluster.pass_time(MINUTE_MS, silent=(2, 3))
    answer = requested.look().responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (code, 0)


def set_minimum(cluster: DrivenCluster, resource_type: int, name: str, value: str) -> None:
    config = incremental_alter_configs.AlterableConfig(name="min.insync.replicas", value=value)
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=resource_type, resource_name=name, configs=[config]
    )
    answer = cluster.ask(incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == 0


@pytest.mark.parametrize(("resource_type", "name"), [(TOPIC_RESOURCE, "t"), (BROKER_RESOURCE, "")])
def test_what_is_written_while_too_few_are_in_sync_is_invisible_until_fewer_will_do(
    resource_type: int, name: str
) -> None:
    cluster = new_cluster()
    set_minimum(cluster, resource_type, name, "2")
    cluster.lose(2, 3)
    assert produce(cluster, GOOD, acks=1).error_code == 0
    (found,) = fetch(cluster, 0)
    assert (found.error_code, found.high_watermark, found.records) == (0, 0, b"")
    set_minimum(cluster, resource_type, name, "1")
    assert fetch(cluster, 0)[0].high_watermark == 2
    set_minimum(cluster, resource_type, name, "2")
    assert produce(cluster, GOOD, acks=1).error_code == 0
    assert fetch(cluster, 0)[0].high_watermark == 2
    cluster.come_back(2)
    cluster.tick()
    assert fetch(cluster, 0)[0].high_watermark == 4


def move_leader_away(cluster: DrivenCluster) -> None:
    cluster.lose(1)
    assert cluster.partitions("t")[0].leader == 2


def move_leader_there_and_back(cluster: DrivenCluster) -> None:
    move_leader_away(cluster)
    produce(cluster, batch(100), broker_id=2, acks=1)
    cluster.pass_time(20_000)
    cluster.come_back(1)
    cluster.pass_time(20_000)
    cluster.shut_down(2)
    cluster.pass_time(20_000)
    if cluster.partitions("t")[0].leader != 1:
        cluster.shut_down(3)
    assert cluster.partitions("t")[0].leader == 1


def delete_topic(cluster: DrivenCluster) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=ONE_SECOND)
    assert cluster.ask(request).responses[0].error_code == 0


@pytest.mark.parametrize(
    ("happens", "code"),
    [
        (move_leader_away, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (move_leader_there_and_back, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (delete_topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_nothing_is_acknowledged_that_was_lost(happens: Callable[[DrivenCluster], None], code: int) -> None:
    cluster = new_cluster(data_limits=SLOW)
    requested = Asked(cluster, produce_request(cluster, batch(5_000), timeout_ms=10 * MINUTE_MS))
    assert requested.look() is None
    happens(cluster)
    answer = requested.look().responses[0].partition_responses[0]
    assert answer.error_code == code


def test_who_leads_no_more_acknowledges_nothing_even_if_nothing_was_lost() -> None:
    cluster = new_cluster(data_limits=SLOW)
    cluster.set_down([3])
    requested = Asked(cluster, produce_request(cluster, batch(10), timeout_ms=MINUTE_MS))
    cluster.clock.advance(ONE_SECOND)
    assert requested.look() is None
    cluster.shut_down(1)
    assert len(read(cluster, broker_id=2, max_wait_ms=0)) == 0
    found = cluster.data.find(cluster.image.topics_by_name["t"].topic_id, 0)
    assert found is not None
    assert (found.leader, found.log.log_end_offset) == (2, 10)
    answer = requested.look().responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answer.current_leader.leader_id, answer.base_offset) == (2, 0)


def test_a_leader_that_came_back_in_time_acknowledges_what_it_kept() -> None:
    """After a shutdown it has everything when it leads again: nothing was cut off, although the epoch is another
    one."""
    cluster = new_cluster(data_limits=SLOW)
    requested = Asked(cluster, produce_request(cluster, batch(200), timeout_ms=10 * MINUTE_MS))
    cluster.pass_time(1_000)
    assert requested.look() is None
    epoch = cluster.partitions("t")[0].leader_epoch
    cluster.pass_time(5_000)
    cluster.shut_down(1)
    cluster.come_back(1)
    cluster.pass_time(5_000)
    cluster.shut_down(2)
    cluster.shut_down(3)
    assert (cluster.partitions("t")[0].leader, cluster.partitions("t")[0].leader_epoch > epoch) == (1, True)
    assert requested.look().responses[0].partition_responses[0].error_code == 0


def test_without_room_nothing_is_written_until_records_are_deleted() -> None:
    size = len(batch(value=bytes(1_000)))
    cluster = new_cluster(data_limits=DataLimits(memory_bytes=2 * (size + ENTRY_BYTES), file_bytes=0))
    cluster.create_at("v", [1])
    for _ in range(2):
        assert produce(cluster, batch(value=bytes(1_000))).error_code == 0
    for topic_name in ("t", "v"):
        answer = produce(cluster, batch(value=bytes(1_000)), topic_name=topic_name)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    cluster.data.delete_before(cluster.image.topics_by_name["t"].topic_id, 0, 1, cluster.clock.now_ms)
    assert produce(cluster, batch(value=bytes(1_000))).base_offset == 2
