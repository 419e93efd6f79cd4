"""Reservations of offsets: which appends make one, also those of group coordinators to their internal topics."""

from klamm.broker.data.reservations import LAST_OFFSET, OFFSETS_AHEAD, Reservations
from klamm.controller.metadata.partition import LogKey
from klamm.protocol.internal_topics import CONSUMER_OFFSETS
from tests.broker.data.batches import batch
from tests.broker.groups.conversation import CONFIGS, Conversation
from tests.broker.handlers.data_requests import id_of, produce
from tests.controller.handlers.cluster import START_MS, DrivenCluster

TWO = batch(2, timestamp_ms=START_MS)


def new_cluster() -> tuple[DrivenCluster, Reservations]:
    """A cluster with the topic `t` that reserves offsets."""
    cluster = DrivenCluster(1, profile="kafka", configs=CONFIGS)
    cluster.create("t", 1, 1)
    return cluster, reserving(cluster)


def reserving(cluster: DrivenCluster) -> Reservations:
    cluster.data.reservations = Reservations()
    return cluster.data.reservations


def test_only_an_append_beyond_the_reservation_makes_one() -> None:
    cluster, reservations = new_cluster()
    t: LogKey = (id_of(cluster, "t"), 0)
    assert reservations.is_empty
    for _ in range(3):
        produce(cluster, TWO)
    assert (reservations.made, reservations.take()) == (1, [(t, 2 + OFFSETS_AHEAD)])
    assert cluster.data.reserved_ends() == [(t, 2 + OFFSETS_AHEAD)]
    found = cluster.data.find(*t)
    assert found is not None
    reservations.give_back(t, found)
    produce(cluster, TWO)
    assert (reservations.made, reservations.take()) == (2, [(t, 6), (t, 8 + OFFSETS_AHEAD)])


def test_a_reservation_ends_at_the_last_offset_that_there_is() -> None:
    cluster, reservations = new_cluster()
    t: LogKey = (id_of(cluster, "t"), 0)
    cluster.data.restore(cluster.image, {t: LAST_OFFSET - 10}, START_MS)
    produce(cluster, TWO)
    assert reservations.take() == [(t, LAST_OFFSET)]


def test_offsets_of_an_internal_topic_are_reserved_and_not_used_again_after_a_crash() -> None:
    cluster, reservations = new_cluster()
    for commit in range(3):
        group = Conversation(cluster)
        assert group.commit(commit) == 0
        assert reservations.made == 1, "one reservation is enough for many commits"
        stored = dict(reservations.take())
        ((key, reserved_end),) = stored.items()
        assert key[0] == id_of(cluster, CONSUMER_OFFSETS)
        used = dict(cluster.data.log_end_offsets())[key]
        assert used <= reserved_end
        cluster.start(stored)
        reservations = reserving(cluster)
        found = cluster.data.find(*key)
        assert found is not None
        assert found.log.log_start_offset == reserved_end
