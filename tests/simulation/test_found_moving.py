"""Histories in which the machine with records and moves found a fault: each by name, in few steps."""

from klamm.controller.metadata.partition import Partition
from tests.broker.handlers.data_requests import ALL
from tests.simulation.model_moves import PREFERRED, UNCLEAN
from tests.simulation.moving_machine import MovingMachine


def started(brokers: int = 3, replicas: int = 3, **fields: object) -> MovingMachine:
    """One partition, first led by broker 1."""
    machine = MovingMachine()
    machine.begin(brokers=brokers, **fields)
    machine.create_by_hand(name="third", row=[1, 2, 3, 4, 5], replication_factor=replicas, partitions=1, broker_id=1)
    machine.everything_holds()
    return machine


def only(machine: MovingMachine) -> Partition:
    [partition] = machine.cluster.partitions("third")
    return partition


def test_whoever_fetches_on_gets_no_share_twice_because_others_come_and_go() -> None:
    machine = started(rate=1, brokers=4)
    machine.produce(0, count=20)
    for _ in range(3):
        machine.shut_down(4)
        machine.everything_holds()
        machine.come_up(4, clean=True)
        machine.everything_holds()
    machine.shut_down(3)
    machine.everything_holds()
    machine.live_on(500)
    machine.everything_holds()
    machine.ask_how_far_replicas_are(0)


def test_a_move_back_to_brokers_that_are_gone_puts_none_of_them_in_sync() -> None:
    machine = started(replicas=1, brokers=3)
    machine.move([(0, 0, [2])])
    machine.everything_holds()
    machine.shut_down(1)
    machine.everything_holds()
    machine.allow_unclean_elections(0, on=True)
    machine.take_back(0, all_of_them=False)
    machine.everything_holds()
    assert (only(machine).replicas, only(machine).isr, only(machine).eligible_leader_replicas) == ((1,), (), (1,))
    machine.come_up(1, clean=True)
    machine.everything_holds()
    assert only(machine).leader == 1


def test_who_was_down_when_it_could_have_caught_up_does_so_when_it_is_back() -> None:
    """Nothing of it is logged, neither that it was down nor that it is not."""
    machine = started()
    machine.shut_down(3)
    machine.everything_holds()
    machine.register(3, again=False, clean=True)
    machine.heartbeat(3, lag=0, want_fence=False, want_shut_down=False, stale=False)
    machine.crash({3})
    machine.live_on(500)
    machine.everything_holds()
    assert only(machine).isr == (1, 2)
    machine.come_back()
    machine.live_on(500)
    machine.everything_holds()
    assert only(machine).isr == (1, 2, 3)


def test_a_leader_that_is_down_takes_nobody_out_of_the_isr() -> None:
    machine = started(rate=1, lag_time_max_ms=2_500)
    machine.produce(0, count=20, acks=ALL)
    machine.crash({1})
    for _ in range(2):
        machine.live_on(3_000)
        machine.everything_holds()
    assert (only(machine).leader, only(machine).isr) == (1, (1, 2, 3))
    machine.live_on(3_000)
    machine.everything_holds()
    assert (only(machine).leader, only(machine).isr) == (2, (2, 3))


def test_with_a_leader_that_is_down_nobody_catches_up() -> None:
    machine = started()
    machine.shut_down(3)
    machine.register(3, again=False, clean=True)
    machine.heartbeat(3, lag=0, want_fence=False, want_shut_down=False, stale=False)
    machine.crash({1})
    machine.live_on(500)
    machine.everything_holds()
    assert only(machine).isr == (1, 2)


def test_an_eligible_replica_that_leads_alone_may_be_all_that_a_move_wants() -> None:
    """As in Kafka: the move is looked at before the election, so it is complete with the next change, which comes with
    the broker that leaves."""
    machine = started(replicas=1, brokers=3)
    machine.allow_unclean_elections(0, on=True)
    machine.move([(0, 0, [2])])
    machine.shut_down(1)
    machine.live_on(500)
    machine.everything_holds()
    assert (only(machine).leader, only(machine).isr) == (2, (2,))
    assert (only(machine).replicas, only(machine).reassigning) == ((2, 1), True)
    machine.come_up(1, clean=True)
    machine.live_on(500)
    machine.everything_holds()
    assert (only(machine).replicas, only(machine).reassigning) == ((2,), False)


def test_with_whoever_is_elected_uncleanly_the_others_catch_up() -> None:
    """No broker comes then, and no replica: the leader is all that changes."""
    machine = started()
    for broker_id in (2, 3, 1):
        machine.shut_down(broker_id)
        machine.everything_holds()
    for broker_id in (2, 3):
        machine.come_up(broker_id, clean=True)
        machine.everything_holds()
    assert only(machine).leader == -1
    machine.elect_leaders(UNCLEAN, [(0, 0)])
    machine.live_on(500)
    machine.everything_holds()
    assert (only(machine).leader, only(machine).isr) == (2, (2, 3))


def test_a_leader_elected_twice_in_one_request_begins_two_epochs_and_keeps_every_record() -> None:
    machine = started()
    machine.produce(0, count=20, acks=ALL)
    machine.live_on(500)
    machine.move([(0, 0, [2, 1, 3])])
    machine.everything_holds()
    machine.elect_leaders(PREFERRED, [(0, 0), (0, 0), (0, 4)])
    machine.everything_holds()
    assert (only(machine).leader, only(machine).leader_epoch) == (2, 2)
    machine.produce(0, count=5, acks=ALL)
    machine.everything_holds()
    for broker_id in (2, 3, 1):
        machine.shut_down(broker_id)
    machine.come_up(3, clean=True)
    machine.elect_leaders(UNCLEAN, [(0, 0)] * 3)
    machine.live_on(500)
    machine.everything_holds()
    assert only(machine).leader == 3


def test_replicas_follow_the_batch_of_a_request_that_moves_a_partition_twice() -> None:
    """In sync with itself alone for a moment in the decision, the leader does not commit what its followers lack."""
    machine = started(rate=1, brokers=4, min_isr=2)
    machine.produce(0, count=5, acks=ALL)
    machine.move([(0, 0, [1]), (0, 0, [1, 2, 4])])
    machine.everything_holds()
    assert (only(machine).replicas, only(machine).isr) == ((1, 2, 4), (1,))
    assert len(machine.waiting) == 1
    machine.live_on(3_000)
    machine.live_on(3_000)
    machine.everything_holds()
    assert (only(machine).isr, machine.waiting) == ((1, 2, 4), [])
