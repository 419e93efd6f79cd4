"""Produce by idempotent producers: repeated batches, gaps, epochs, and what a new leader knows of them."""

from typing import Any

import pytest

from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.topics.create_topics import CreatableTopicConfig
from tests.broker.data.batches import batch
from tests.broker.handlers.data_requests import ALL, fetch, produce
from tests.controller.handlers.cluster import START_MS, DrivenCluster


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
