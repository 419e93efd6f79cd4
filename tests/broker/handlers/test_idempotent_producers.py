"""Produce by idempotent producers: repeated batches, gaps, epochs, and what a new leader knows of them."""

from typing import Any

import pytest

from klamm.broker.data.producers import EXPIRATION_CHECK_INTERVAL_MS
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.messages.data.describe_producers import DescribeProducersRequest, TopicRequest
from klamm.protocol.messages.topics.create_topics import CreatableTopicConfig
from tests.broker.data.batches import batch
from tests.broker.handlers.data_requests import ALL, fetch, produce
from tests.controller.handlers.cluster import START_MS, DrivenCluster

BROKER = 4
DAY_MS = 86_400_000


def new_cluster() -> DrivenCluster:
    """Topic t, led by broker 1, and topic u, whose records have the times at which they are written."""
    cluster = DrivenCluster()
    stamped = [CreatableTopicConfig(name="message.timestamp.type", value="LogAppendTime")]
    assert cluster.create_at("t", [1, 2, 3]).error_code == 0
    assert cluster.create_at("u", [1, 2, 3], configs=stamped).error_code == 0
    return cluster


def test_a_repeated_batch_is_where_it_was() -> None:
    cluster = new_cluster()
    numbered = [
        batch(2, producer_id=7, producer_epoch=0, base_sequence=sequence, timestamp_ms=START_MS - sequence)
        for sequence in (0, 2, 4)
    ]
    answers = [produce(cluster, numbered[index], acks=ALL) for index in (0, 1, 0, 1, 2)]
    assert [(one.error_code, one.base_offset, one.log_append_time_ms) for one in answers] == [
        (0, 0, -1),
        (0, 2, -1),
        (0, 0, START_MS),
        (0, 2, START_MS - 2),
        (0, 4, -1),
    ]


def test_of_a_repeated_batch_the_time_at_which_it_was_written_is_told() -> None:
    """If the topic has log append times; otherwise the latest timestamp of its records."""
    cluster = new_cluster()
    numbered = batch(2, producer_id=7, producer_epoch=0, base_sequence=0)
    answers = []
    for _ in range(2):
        cluster.clock.advance(7)
        answers.append(produce(cluster, numbered, topic_name="u"))
    assert [(one.base_offset, one.log_append_time_ms) for one in answers] == [(0, START_MS + 7)] * 2


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"producer_epoch": 1, "base_sequence": 5}, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ({"producer_epoch": 2, "base_sequence": 1}, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ({"producer_epoch": 0, "base_sequence": 2}, ErrorCode.INVALID_PRODUCER_EPOCH),
        ({"producer_epoch": 1, "base_sequence": -1}, ErrorCode.INVALID_RECORD),
    ],
)
def test_a_producer_s_batches_come_in_order(wrong: dict[str, Any], code: int) -> None:
    cluster = new_cluster()
    assert produce(cluster, batch(2, producer_id=7, producer_epoch=1, base_sequence=0)).error_code == 0
    answer = produce(cluster, batch(2, producer_id=7, **wrong))
    assert (answer.error_code, answer.base_offset) == (code, -1)
    assert fetch(cluster, 0)[0].high_watermark == 2


def producers_of(cluster: DrivenCluster) -> list[int]:
    """The producers that partition 0 of t remembers."""
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])])
    found = cluster.ask(request).topics[0].partitions[0]
    return [one.producer_id for one in found.active_producers]


def set_expiration(cluster: DrivenCluster, expiration_ms: int) -> None:
    config = AlterableConfig(name="producer.id.expiration.ms", config_operation=0, value=str(expiration_ms))
    resource = AlterConfigsResource(resource_type=BROKER, resource_name="", configs=[config])
    answer = cluster.ask(IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == 0


def test_a_producer_that_does_not_write_is_forgotten_by_the_next_check() -> None:
    """Its next batch may have any sequence number then. The config is dynamic."""
    cluster = new_cluster()
    set_expiration(cluster, 2 * EXPIRATION_CHECK_INTERVAL_MS)
    idle, busy = (
        batch(producer_id=number, producer_epoch=0, base_sequence=0, timestamp_ms=START_MS) for number in (7, 8)
    )
    for records in (idle, busy):
        assert produce(cluster, records).error_code == 0
    assert producers_of(cluster) == [7, 8]
    cluster.clock.advance(2 * EXPIRATION_CHECK_INTERVAL_MS - 1)
    now_ms = START_MS + 2 * EXPIRATION_CHECK_INTERVAL_MS - 1
    assert (
        produce(cluster, batch(producer_id=8, producer_epoch=0, base_sequence=1, timestamp_ms=now_ms)).error_code == 0
    )
    gap = batch(producer_id=7, producer_epoch=0, base_sequence=5)
    assert produce(cluster, gap).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    cluster.clock.advance(EXPIRATION_CHECK_INTERVAL_MS)
    assert produce(cluster, gap).error_code == 0
    assert producers_of(cluster) == [8, 7]


def test_without_a_check_nothing_expires_and_the_default_is_a_day() -> None:
    cluster = new_cluster()
    numbered = batch(producer_id=7, producer_epoch=0, base_sequence=0, timestamp_ms=START_MS)
    assert produce(cluster, numbered).error_code == 0
    cluster.clock.advance(DAY_MS - EXPIRATION_CHECK_INTERVAL_MS)
    assert producers_of(cluster) == [7]
    cluster.clock.advance(EXPIRATION_CHECK_INTERVAL_MS - 1)
    assert producers_of(cluster) == [7]
    cluster.clock.advance(EXPIRATION_CHECK_INTERVAL_MS)
    assert producers_of(cluster) == []
    assert produce(cluster, numbered).base_offset == 1
    set_expiration(cluster, 1)
    cluster.clock.advance(EXPIRATION_CHECK_INTERVAL_MS - 1)
    assert producers_of(cluster) == [7]
    cluster.clock.advance(1)
    assert producers_of(cluster) == []
