"""The closest replica (KIP-392): where a consumer with a rack is sent."""

import pytest

from klamm.protocol.errors import ErrorCode
from tests.broker.data.batches import batch
from tests.broker.handlers.data_requests import fetch, produce
from tests.broker.handlers.test_fetch import base_offsets, new_cluster
from tests.controller.handlers.cluster import DrivenCluster

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def in_racks() -> DrivenCluster:
    """Topic r on brokers 1 to 4, of which 1 leads, with 30 records that every replica has."""
    selector = {"replica.selector.class": SELECTOR}
    cluster = DrivenCluster(4, racks=("a", "b", "b", "c"), configs=selector)
    cluster.create_at("r", [1, 2, 3, 4])
    for _ in range(3):
        assert produce(cluster, batch(10), topic_name="r").error_code == 0
    cluster.clock.advance(10)
    return cluster


@pytest.mark.parametrize(("rack", "closest"), [("a", -1), ("b", 3), ("c", 4), ("d", -1), ("", -1)])
def test_a_consumer_is_sent_to_a_replica_in_its_rack(rack: str, closest: int) -> None:
    cluster = in_racks()
    (found,) = fetch(cluster, 0, topic_name="r", rack_id=rack, max_wait_ms=500)
    assert (found.preferred_read_replica, bool(found.records)) == (closest, closest < 0)
    assert (found.error_code, found.high_watermark, found.log_start_offset) == (0, 30, 0)
    if closest > 0:
        (there,) = fetch(cluster, 0, topic_name="r", rack_id=rack, broker_id=closest)
        assert (there.preferred_read_replica, base_offsets(there.records or b"")) == (-1, [0, 10, 20])


def test_a_consumer_is_not_sent_to_a_replica_that_is_out_of_sync_fenced_or_behind() -> None:
    cluster = in_racks()
    cluster.lose(3)
    assert fetch(cluster, 0, topic_name="r", rack_id="b")[0].preferred_read_replica == 2
    cluster.lose(2)
    (found,) = fetch(cluster, 0, topic_name="r", rack_id="b")
    assert (found.preferred_read_replica, bool(found.records)) == (-1, True)
    assert fetch(cluster, 31, topic_name="r", rack_id="c")[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetch(cluster, 30, topic_name="r", rack_id="c")[0].preferred_read_replica == 4


def test_without_a_selector_or_as_a_replica_a_consumer_reads_where_it_asks() -> None:
    cluster = in_racks()
    assert fetch(cluster, 0, topic_name="r", rack_id="c", version=12)[0].preferred_read_replica == 4
    assert fetch(cluster, 0, topic_name="r", rack_id="c", version=11)[0].preferred_read_replica == 4
    without = new_cluster()
    (found,) = fetch(without, 0, rack_id="c")
    assert (found.preferred_read_replica, found.error_code) == (-1, 0)
    one_broker = DrivenCluster(2, racks=("a", "b"), broker_configs={2: {"replica.selector.class": SELECTOR}})
    one_broker.create_at("r", [1, 2], [2, 1])
    assert fetch(one_broker, 0, topic_name="r", rack_id="b")[0].preferred_read_replica == -1
    assert fetch(one_broker, 0, topic_name="r", partition=1, rack_id="a", broker_id=2)[0].preferred_read_replica == 1


def test_the_replica_with_most_records_is_the_closest_one() -> None:
    cluster = in_racks()
    cluster.data.set_down(cluster.image, [3], cluster.clock.now_ms)
    assert produce(cluster, batch(10), topic_name="r", acks=1).error_code == 0
    cluster.clock.advance(10)
    assert fetch(cluster, 0, topic_name="r", rack_id="b")[0].preferred_read_replica == 2


def test_in_its_own_rack_the_leader_is_the_closest_replica() -> None:
    cluster = DrivenCluster(3, racks=("a", "a", "b"), configs={"replica.selector.class": SELECTOR})
    cluster.create_at("r", [1, 2, 3])
    produce(cluster, batch(10), topic_name="r")
    cluster.clock.advance(10)
    (found,) = fetch(cluster, 0, topic_name="r", rack_id="a")
    assert (found.preferred_read_replica, base_offsets(found.records or b"")) == (-1, [0])


def test_a_replica_that_has_left_the_isr_is_not_the_closest_one_though_it_has_the_records() -> None:
    cluster = in_racks()
    cluster.data.set_down(cluster.image, [3], cluster.clock.now_ms)
    assert produce(cluster, batch(10), topic_name="r", acks=1).error_code == 0
    cluster.pass_time(31_000)
    assert 3 not in cluster.partitions("r")[0].isr
    assert not cluster.image.brokers[3].fenced
    assert fetch(cluster, 0, topic_name="r", rack_id="b")[0].preferred_read_replica == 2
    cluster.data.set_down(cluster.image, [2, 3], cluster.clock.now_ms)
    assert produce(cluster, batch(10), topic_name="r", acks=1).error_code == 0
    cluster.pass_time(31_000)
    (found,) = fetch(cluster, 0, topic_name="r", rack_id="b")
    assert (found.preferred_read_replica, bool(found.records)) == (-1, True)
