"""The size of an answer to Fetch, and whether it waits for more: any limits, compared with a plain count of bytes."""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from klamm.protocol.messages.data.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.broker.data.batches import batch
from tests.broker.handlers.data_requests import Asked, id_of, produce
from tests.controller.handlers.cluster import DrivenCluster

WAIT_MS = 500
BATCHES = [[batch(1), batch(10), batch(2)], [batch(2), batch(1)], [batch(5, value=bytes(300)), batch(1), batch(1)]]
"""The batches in each partition of topic v."""
COMMITTED = [3, 2, 2]
"""The number of committed batches of each partition."""
SIZES = sorted({0, *accumulate(len(one) for partition in BATCHES for one in partition)} | {1024})
ALL = 2**31 - 1


def new_cluster(**configs: str) -> DrivenCluster:
    """Topic v, led by broker 1. Broker 2 stops before it has the last batch of partition 2, which stays uncommitted."""
    cluster = DrivenCluster(2, configs={name.replace("_", "."): value for name, value in configs.items()})
    assert cluster.create_at("v", [1, 2], [1, 2], [1, 2]).error_code == 0
    for index, batches in enumerate(BATCHES):
        for place, records in enumerate(batches):
            if place == COMMITTED[index]:
                cluster.set_down([2])
            assert produce(cluster, records, topic_name="v", partition=index, acks=1).error_code == 0
    return cluster


@pytest.fixture(scope="module")
def clusters() -> dict[int, DrivenCluster]:
    """Clusters by their fetch.max.bytes. No request changes them."""
    return {ALL: new_cluster(fetch_max_bytes=str(ALL)), 1024: new_cluster(fetch_max_bytes="1024")}


class Limits(NamedTuple):
    min_bytes: int
    max_bytes: int
    partition_max_bytes: Sequence[int]
    fetch_max_bytes: int


def asked_for(cluster: DrivenCluster, order: Sequence[int], skipped: Sequence[int], limits: Limits) -> FetchRequest:
    partitions = [
        FetchPartition(
            partition=index,
            fetch_offset=sum(batch_count(one) for one in BATCHES[index][: skipped[index]]),
            partition_max_bytes=limits.partition_max_bytes[index],
        )
        for index in order
    ]
    topic = FetchTopic(topic="v", topic_id=id_of(cluster, "v"), partitions=partitions)
    return FetchRequest(
        max_wait_ms=WAIT_MS, min_bytes=limits.min_bytes, max_bytes=limits.max_bytes, session_epoch=-1, topics=[topic]
    )


def batch_count(records: bytes) -> int:
    return int.from_bytes(records[57:61], "big")


def held(order: Sequence[int], skipped: Sequence[int], limits: Limits) -> list[int]:
    """The sizes of what is returned of each partition: the first batch in any case, others if they fit."""
    most, total, sizes = min(limits.max_bytes, limits.fetch_max_bytes), 0, []
    for index in order:
        size, room = 0, min(limits.partition_max_bytes[index], most - total)
        for records in BATCHES[index][skipped[index] : COMMITTED[index]]:
            if size + len(records) > room and total + size > 0:
                break
            size += len(records)
        total += size
        sizes.append(size)
    return sizes


# Around every possible sum of sizes: one byte less and one more.
near_sizes = st.builds(int.__add__, st.sampled_from(SIZES), st.sampled_from([-1, 0, 0, 1])) | st.just(ALL)


@given(
    order=st.permutations(range(3)),
    skipped=st.tuples(*(st.integers(0, count) for count in COMMITTED)),
    limits=st.builds(
        Limits, near_sizes, near_sizes, st.tuples(near_sizes, near_sizes, near_sizes), st.sampled_from([ALL, 1024])
    ),
)
# The request waits for more than is allowed: what is allowed is enough.
@example([0, 1, 2], (0, 0, 0), Limits(2 * 1024, 1024, (ALL, ALL, ALL), ALL))
@example([0, 1, 2], (0, 0, 0), Limits(2 * 1024, ALL, (ALL, ALL, ALL), 1024))
def test_an_answer_leaves_when_it_holds_as_much_as_is_wanted_or_may_be(
    clusters: dict[int, DrivenCluster], order: list[int], skipped: tuple[int, int, int], limits: Limits
) -> None:
    cluster, expected = clusters[limits.fetch_max_bytes], held(order, skipped, limits)
    requested = Asked(cluster, asked_for(cluster, order, skipped, limits))
    is_enough = sum(expected) >= limits.min_bytes or sum(expected) >= min(limits.max_bytes, limits.fetch_max_bytes)
    response = requested.look()
    assert (response is not None) == is_enough
    if response is None:
        assert requested.waiting.retry_at_ms == cluster.clock.now_ms + WAIT_MS
        cluster.clock.advance(WAIT_MS)
        response = requested.look()
    found = response.responses[0].partitions
    assert [(one.partition_index, one.error_code, len(one.records)) for one in found] == [
        (index, 0, size) for index, size in zip(order, expected, strict=True)
    ]
