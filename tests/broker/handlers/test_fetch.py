"""Fetch: which records consumers get, how long they wait, and every error with its code."""

from typing import Any

import pytest

from klamm.controller.data_limits import DataLimits
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.data import fetch as messages
from tests.broker.data.batches import batch
from tests.broker.handlers.data_requests import Asked, fetch, fetch_request, id_of, produce, read
from tests.controller.handlers.cluster import START_MS, DrivenCluster

SLOW = DataLimits(replication_rate=100)
SIZE = len(batch(10))
FIVE_MINUTES_MS = 5 * 60 * 1000


def new_cluster(**fields: Any) -> DrivenCluster:
    """Topic t: partition 0 led by broker 1, partition 1 by broker 2; broker 4 has no replica."""
    cluster = DrivenCluster(4, **fields)
    assert cluster.create_at("t", [1, 2, 3], [2, 1, 3]).error_code == 0
    return cluster


def filled(batches: int = 3, **fields: Any) -> DrivenCluster:
    """Write this many batches of ten records to partition 0 at once."""
    cluster = new_cluster(**fields)
    for _ in range(batches):
        assert produce(cluster, batch(10), acks=1).error_code == 0
    return cluster


def base_offsets(records: bytes) -> list[int]:
    found = []
    while records:
        found.append(int.from_bytes(records[:8], "big"))
        records = records[12 + int.from_bytes(records[8:12], "big") :]
    return found


@pytest.mark.parametrize("version", messages.API.kept_versions)
def test_what_was_written_is_read(version: int) -> None:
    cluster = filled()
    response = cluster.ask(fetch_request(cluster, 0), version=version)
    assert (response.error_code, response.session_id) == (0, 0)
    (found,) = response.responses[0].partitions
    assert base_offsets(found.records) == [0, 10, 20]
    assert (found.high_watermark, found.last_stable_offset) == (30, 30)
    assert found.log_start_offset == (0 if version >= 5 else -1)
    assert found.aborted_transactions is None
    assert fetch(cluster, 20)[0].log_start_offset == 0, "whatever offset is asked for"
    assert fetch(cluster, 0, version=version, isolation_level=1)[0].aborted_transactions == ()


@pytest.mark.parametrize(
    ("offset", "expected"), [(0, [0, 10, 20]), (9, [0, 10, 20]), (10, [10, 20]), (29, [20]), (30, [])]
)
def test_reading_begins_with_the_batch_that_holds_the_offset(offset: int, expected: list[int]) -> None:
    assert base_offsets(read(filled(), offset)) == expected


CASES: list[tuple[str, int, dict[str, Any]]] = [
    ("unknown topic", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, {"topic_name": "nope", "version": 12}),
    ("unknown topic id", ErrorCode.UNKNOWN_TOPIC_ID, {"topic_name": "nope", "version": 13}),
    ("unknown partition", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, {"partition": 2}),
    ("negative partition", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, {"partition": -1}),
    ("before the start", ErrorCode.OFFSET_OUT_OF_RANGE, {"offset": -1}),
    ("behind the end", ErrorCode.OFFSET_OUT_OF_RANGE, {"offset": 31}),
    ("behind the end of an empty log", ErrorCode.OFFSET_OUT_OF_RANGE, {"offset": 1, "partition": 1, "broker_id": 2}),
    ("an older epoch", ErrorCode.FENCED_LEADER_EPOCH, {"current_leader_epoch": 0}),
    ("a newer epoch", ErrorCode.UNKNOWN_LEADER_EPOCH, {"current_leader_epoch": 2}),
    ("an older epoch of a follower", ErrorCode.FENCED_LEADER_EPOCH, {"current_leader_epoch": 0, "broker_id": 2}),
    ("a broker without a replica", ErrorCode.NOT_LEADER_OR_FOLLOWER, {"broker_id": 4, "current_leader_epoch": 0}),
    ("a follower, old version", ErrorCode.NOT_LEADER_OR_FOLLOWER, {"broker_id": 2, "version": 10}),
    ("a replica", ErrorCode.NOT_LEADER_OR_FOLLOWER, {"version": 14, "replica_id": 2}),
    (
        "a replica with an epoch",
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        {"current_leader_epoch": 1, "replica_state": messages.ReplicaState(replica_id=2)},
    ),
    ("another isolation level", ErrorCode.INVALID_REQUEST, {"isolation_level": 2}),
    ("an epoch that nobody knows", ErrorCode.OFFSET_OUT_OF_RANGE, {"last_fetched_epoch": 5}),
    ("before the start, with an epoch", ErrorCode.OFFSET_OUT_OF_RANGE, {"offset": -1, "last_fetched_epoch": 0}),
]


def in_second_epoch() -> DrivenCluster:
    """Topic e: partition 0 led by broker 1 in epoch 1, partition 1 empty and led by broker 3. Broker 4 has none."""
    cluster = DrivenCluster(4)
    assert cluster.create_at("e", [2, 1, 3], [3, 1, 2]).error_code == 0
    cluster.shut_down(2)
    cluster.come_back(2)
    for _ in range(3):
        assert produce(cluster, batch(10), topic_name="e").error_code == 0
    return cluster


@pytest.mark.parametrize(("what", "code", "fields"), CASES, ids=[case[0] for case in CASES])
def test_what_is_refused_has_its_code_at_once(what: str, code: int, fields: dict[str, Any]) -> None:
    cluster = in_second_epoch()
    requested = {"topic_name": "e", "max_wait_ms": 1_000, "min_bytes": 1 << 20, "offset": 30, **fields}
    (found,) = fetch(cluster, requested.pop("offset"), **requested)
    assert (found.error_code, found.high_watermark, found.last_stable_offset) == (code, -1, -1), what
    assert (found.log_start_offset, found.records) == (-1, b"")


@pytest.mark.parametrize("version", [15, 16])
def test_who_asks_the_wrong_broker_is_told_the_right_one(version: int) -> None:
    cluster = in_second_epoch()
    request = fetch_request(cluster, 0, topic_name="e", current_leader_epoch=0)
    for broker_id in (4, 1):
        response = cluster.ask(request, version=version, broker_id=broker_id)
        (found,) = response.responses[0].partitions
        reported = (found.current_leader.leader_id, found.current_leader.leader_epoch)
        assert reported == ((1, 1) if version >= 16 else (-1, -1))
        assert [one.node_id for one in response.node_endpoints] == ([1] if version >= 16 else [])


def test_consumers_read_what_is_committed() -> None:
    cluster = filled(data_limits=SLOW)
    cluster.clock.advance(150)
    (found,) = fetch(cluster, 0)
    assert (found.high_watermark, base_offsets(found.records or b"")) == (15, [0])
    (found,) = fetch(cluster, 16)
    assert (found.error_code, found.high_watermark, found.records) == (0, 15, b"")
    cluster.clock.advance(150)
    assert base_offsets(read(cluster, 0)) == [0, 10, 20]


def test_a_follower_gives_what_it_has() -> None:
    cluster = filled(data_limits=SLOW)
    cluster.clock.advance(5_000)
    cluster.lose(3)
    produce(cluster, batch(10), acks=1)
    assert base_offsets(read(cluster, 0, broker_id=2)) == [0, 10, 20]
    cluster.pass_time(5_000, silent=[3])
    assert base_offsets(read(cluster, 0, broker_id=2)) == [0, 10, 20, 30]
    (behind,) = fetch(cluster, 0, broker_id=3)
    assert (behind.high_watermark, base_offsets(behind.records or b"")) == (30, [0, 10, 20])
    assert fetch(cluster, 31, broker_id=3)[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"partition_max_bytes": 1}, [[0], []]),
        ({"partition_max_bytes": 2 * SIZE - 1}, [[0], [0]]),
        ({"partition_max_bytes": 2 * SIZE}, [[0, 10], [0, 10]]),
        ({"max_bytes": 1}, [[0], []]),
        ({"max_bytes": 4 * SIZE}, [[0, 10, 20], [0]]),
        ({"max_bytes": -1, "partition_max_bytes": -1}, [[0], []]),
        ({}, [[0, 10, 20], [0, 10, 20]]),
    ],
)
def test_an_answer_holds_as_much_as_is_wanted_and_always_one_batch(
    limits: dict[str, int], expected: list[list[int]]
) -> None:
    cluster = new_cluster()
    cluster.create_at("v", [1], [1])
    for _ in range(3):
        cluster_answer = [produce(cluster, batch(10), topic_name="v", partition=index) for index in (0, 1)]
        assert [one.error_code for one in cluster_answer] == [0, 0]
    found = fetch(cluster, 0, 0, topic_name="v", **limits)
    assert [base_offsets(one.records or b"") for one in found] == expected


@pytest.mark.parametrize("partitions", [(0, 1), (1, 0)])
def test_an_answer_about_two_partitions_is_looked_at_when_the_first_of_them_has_more(
    partitions: tuple[int, int],
) -> None:
    cluster = new_cluster(data_limits=SLOW)
    cluster.create_at("v", [1, 2], [1, 2])
    for index, records in ((0, 10), (1, 30)):
        assert produce(cluster, batch(records), topic_name="v", partition=index, acks=1).error_code == 0
    wanted = [messages.FetchPartition(partition=index, partition_max_bytes=1 << 20) for index in partitions]
    topic = messages.FetchTopic(topic_id=id_of(cluster, "v"), partitions=wanted)
    requested = Asked(cluster, messages.FetchRequest(max_wait_ms=500, min_bytes=1, session_epoch=-1, topics=[topic]))
    assert requested.look() is None
    assert requested.waiting.retry_at_ms == START_MS + 99


def test_a_broker_gives_no_more_than_its_fetch_max_bytes() -> None:
    cluster = filled(20, configs={"fetch.max.bytes": "1024"})
    assert len(base_offsets(read(cluster, 0))) == 1024 // SIZE


def test_an_empty_answer_waits_for_records() -> None:
    cluster = new_cluster()
    requested = Asked(cluster, fetch_request(cluster, 0, max_wait_ms=500))
    assert requested.look() is None
    assert requested.waiting.retry_at_ms == START_MS + 500
    assert requested.waiting.keys == [(cluster.image.topics_by_name["t"].topic_id, 0)]
    cluster.clock.advance(499)
    assert requested.look() is None
    produce(cluster, batch(10))
    assert base_offsets(requested.look().responses[0].partitions[0].records) == [0]


def test_an_answer_waits_for_as_many_bytes_as_are_wanted() -> None:
    cluster = filled(2)
    requested = Asked(cluster, fetch_request(cluster, 0, max_wait_ms=500, min_bytes=3 * SIZE))
    assert requested.look() is None
    produce(cluster, batch(10))
    assert base_offsets(requested.look().responses[0].partitions[0].records) == [0, 10, 20]
    assert Asked(cluster, fetch_request(cluster, 0, max_wait_ms=500, min_bytes=SIZE, max_bytes=1)).look() is not None


def test_an_answer_leaves_at_its_deadline_though_replication_takes_longer() -> None:
    cluster = filled(1, data_limits=SLOW)
    requested = Asked(cluster, fetch_request(cluster, 0, max_wait_ms=98))
    assert requested.look() is None
    assert requested.waiting.retry_at_ms == START_MS + 98
    cluster.clock.advance(98)
    assert requested.look().responses[0].partitions[0].records == b""


@pytest.mark.parametrize(("offset", "after_ms", "expected"), [(0, 99, [0]), (15, 199, [10])])
def test_an_answer_waits_for_replication_and_knows_when_to_look(
    offset: int, after_ms: int, expected: list[int]
) -> None:
    cluster = filled(3, data_limits=SLOW)
    requested = Asked(cluster, fetch_request(cluster, offset, max_wait_ms=5_000))
    assert requested.look() is None
    assert requested.waiting.retry_at_ms == START_MS + after_ms
    cluster.clock.advance(after_ms - 1)
    assert requested.look() is None
    cluster.clock.advance(1)
    assert base_offsets(requested.look().responses[0].partitions[0].records) == expected


def test_a_consumer_of_a_follower_waits_for_that_follower() -> None:
    """Broker 2 is outside the ISR when the batch is written and committed, and fetches it later than broker 1 has
    it."""
    cluster = new_cluster(data_limits=SLOW)
    produce(cluster, batch(1_000), acks=1)
    cluster.pass_time(12_000)
    cluster.lose(2)
    produce(cluster, batch(1_000), acks=1)
    cluster.pass_time(15_000, silent=[2])
    assert read(cluster, 1_000) != b""
    cluster.lives[2] += 1
    cluster.register(2, previous_broker_epoch=cluster.image.brokers[2].broker_epoch)
    cluster.heartbeat(2)
    now_ms = cluster.clock.now_ms
    requested = Asked(cluster, fetch_request(cluster, 1_000, max_wait_ms=60_000), broker_id=2)
    assert requested.look() is None
    assert requested.waiting.retry_at_ms == now_ms + 9_999
    cluster.clock.advance(9_999)
    assert base_offsets(requested.look().responses[0].partitions[0].records) == [1_000]


@pytest.mark.parametrize(
    ("max_wait_ms", "waits_ms"),
    [(2**31 - 1, FIVE_MINUTES_MS), (FIVE_MINUTES_MS - 1, FIVE_MINUTES_MS - 1), (3, 3), (0, 0), (-1, 0)],
)
def test_nobody_waits_longer_than_he_wants_nor_for_ever(max_wait_ms: int, waits_ms: int) -> None:
    cluster = filled()
    requested = Asked(cluster, fetch_request(cluster, 30, max_wait_ms=max_wait_ms))
    if waits_ms:
        assert requested.look() is None
        assert requested.waiting.retry_at_ms == START_MS + waits_ms
        cluster.clock.advance(waits_ms)
    (found,) = requested.look().responses[0].partitions
    assert (found.error_code, found.records, found.high_watermark) == (0, b"", 30)


def test_who_asks_for_nothing_that_is_there_does_not_wait() -> None:
    cluster = filled()
    for request in (
        fetch_request(cluster, max_wait_ms=500),
        fetch_request(cluster, 0, topic_name="nope", max_wait_ms=500),
    ):
        assert Asked(cluster, request).look() is not None


def test_a_waiting_consumer_is_told_that_the_leader_moved() -> None:
    cluster = filled()
    requested = Asked(cluster, fetch_request(cluster, 30, max_wait_ms=60_000, current_leader_epoch=0))
    assert requested.look() is None
    cluster.lose(1)
    assert requested.look().responses[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_leaderless_partition_is_not_looked_at_again_and_again() -> None:
    cluster = filled(data_limits=SLOW)
    cluster.lose(2, 3)
    produce(cluster, batch(10), acks=1)
    cluster.lose(1)
    assert cluster.partitions("t")[0].leader == -1
    requested = Asked(cluster, fetch_request(cluster, 30, max_wait_ms=60_000), broker_id=2)
    assert requested.look() is None
    assert requested.waiting.retry_at_ms == cluster.clock.now_ms + 60_000


@pytest.mark.parametrize(
    ("offset", "last_fetched_epoch", "diverging"),
    [(30, 1, None), (5, 0, (0, 0)), (0, 0, None), (31, 1, (1, 30))],
)
def test_a_consumer_whose_log_went_another_way_is_told_where(
    offset: int, last_fetched_epoch: int, diverging: tuple[int, int] | None
) -> None:
    """Epoch 0 ended at offset 0, before anything was written; all records are of epoch 1."""
    cluster = in_second_epoch()
    fields: dict[str, Any] = {"topic_name": "e", "last_fetched_epoch": last_fetched_epoch}
    # A consumer that has to truncate does not wait for records.
    (found,) = fetch(cluster, offset, **fields, max_wait_ms=0 if diverging is None else 500)
    reported = found.diverging_epoch
    assert found.error_code == 0
    assert (reported.epoch, reported.end_offset) == (diverging or (-1, -1))
    assert not (diverging and found.records)


@pytest.mark.parametrize(
    ("offset", "last_fetched_epoch", "diverging"),
    [(20, 2, None), (20, 1, (0, 10)), (10, 1, (0, 10)), (5, 1, (0, 10)), (10, 0, None), (11, 0, (0, 10))],
)
def test_records_of_an_epoch_that_the_log_does_not_have_diverge(
    offset: int, last_fetched_epoch: int, diverging: tuple[int, int] | None
) -> None:
    """Epoch 0 wrote ten records, epoch 1 none that remain, epoch 2 ten more."""
    cluster = new_cluster()
    produce(cluster, batch(10))
    for broker_id in (1, 2):
        cluster.shut_down(broker_id)
        cluster.come_back(broker_id)
    leader = cluster.partitions("t")[0].leader
    assert cluster.partitions("t")[0].leader_epoch == 2
    produce(cluster, batch(10), broker_id=leader)
    (found,) = fetch(cluster, offset, broker_id=leader, last_fetched_epoch=last_fetched_epoch, max_wait_ms=0)
    reported = found.diverging_epoch
    assert (found.error_code, reported.epoch, reported.end_offset) == (0, *(diverging or (-1, -1)))


def test_a_follower_that_is_behind_tells_where_its_own_log_ends() -> None:
    cluster = new_cluster(data_limits=SLOW)
    cluster.set_down([3])
    produce(cluster, batch(10), acks=1)
    (found,) = fetch(cluster, 10, broker_id=3, last_fetched_epoch=0)
    assert (found.error_code, found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (0, 0, 0)


@pytest.mark.parametrize("epoch", [-1, -5, 1])
def test_an_epoch_that_is_none_is_not_compared(epoch: int) -> None:
    assert fetch(in_second_epoch(), 0, topic_name="e", current_leader_epoch=epoch)[0].error_code == 0


@pytest.mark.parametrize("version", messages.API.kept_versions)
def test_followers_answer_since_version_11(version: int) -> None:
    (found,) = fetch(in_second_epoch(), 0, topic_name="e", broker_id=2, version=version)
    assert found.error_code == (ErrorCode.NONE if version >= 11 else ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_what_was_deleted_is_out_of_range() -> None:
    cluster = filled(5)
    cluster.data.delete_before(cluster.image.topics_by_name["t"].topic_id, 0, 30, cluster.clock.now_ms)
    assert fetch(cluster, 29)[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    (found,) = fetch(cluster, 30)
    assert (found.log_start_offset, base_offsets(found.records or b"")) == (30, [30, 40])
