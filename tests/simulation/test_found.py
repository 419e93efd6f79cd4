"""Histories in which the machine, or what it led to, found a fault: each by name, in few steps."""

from collections.abc import Callable

import pytest

from klamm.controller import background
from klamm.controller.settings import Profile
from klamm.controller.transitions import broker_lifecycle, long_work
from klamm.protocol.messages.brokers.broker_heartbeat import BrokerHeartbeatRequest
from klamm.protocol.messages.topics.create_topics import CreatableTopic
from klamm.protocol.messages.topics.metadata import MetadataRequest, MetadataRequestTopic
from tests.simulation.machine import ClusterMachine
from tests.simulation.model_configs import BROKER, MIN_ISR, Alteration, Edit


def topic(name: str, partitions: int, replication_factor: int) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replication_factor)


def set_min_isr_of_all(machine: ClusterMachine) -> None:
    machine.alter_configs([Alteration(BROKER, "", [Edit(MIN_ISR, "1")])], 1, validate_only=False)


def set_min_isr_of_one(machine: ClusterMachine) -> None:
    machine.set_min_isr(1, "1")


@pytest.mark.parametrize("alter", [set_min_isr_of_all, set_min_isr_of_one])
def test_a_partition_whose_eligible_leaders_are_cleared_has_another_epoch(
    alter: Callable[[ClusterMachine], None],
) -> None:
    machine = ClusterMachine()
    machine.begin(min_isr=2)
    machine.create_good_topics([topic("t", 3, 3), topic("other", 1, 1)])
    machine.shut_down(3)
    machine.shut_down(2)
    machine.everything_holds()
    assert machine.cluster.image.partitions.elr
    alter(machine)
    machine.everything_holds()


def test_limits_leave_brokers_without_a_rack_one_rack_in_kafkas_placement() -> None:
    machine = ClusterMachine()
    machine.begin(profile="kafka", racks=("a", None), brokers=5, limits=(6, None))
    machine.create_good_topics([topic("t", 8, 3)])
    machine.everything_holds()


@pytest.mark.parametrize("profile", ["kip", "kafka"])
def test_an_answer_that_makes_topics_is_not_torn_by_the_work_that_follows(
    monkeypatch: pytest.MonkeyPatch, profile: Profile
) -> None:
    """A broker that leads much goes, a step at a time; meanwhile Metadata makes one topic and describes another."""
    for module in (background, broker_lifecycle, long_work):
        monkeypatch.setattr(module, "MAX_CHANGES_AT_ONCE", 5)
    machine = ClusterMachine()
    machine.begin(profile=profile)
    cluster = machine.cluster
    cluster.create_at("first", *[[1, 2, 3]] * 5)
    cluster.create_at("large", *[[2, 1, 3]] * 300)
    # Only the first step: `submit` does not wait for the others.
    epoch = cluster.image.brokers[2].broker_epoch
    cluster.submit(BrokerHeartbeatRequest(broker_id=2, broker_epoch=epoch, want_shut_down=True))
    assert cluster.controller.has_work
    names = ("large", "new")
    response = cluster.ask(
        MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=True)
    )
    for partition in response.topics[0].partitions:
        assert (partition.leader_id, list(partition.isr_nodes)) == (2, [2, 1, 3])
