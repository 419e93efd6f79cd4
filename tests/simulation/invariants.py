"""What holds after every step of a simulation, one named function each. They assert; they change nothing."""

from collections.abc import Callable
from dataclasses import dataclass, field

from controller.metadata.image import MetadataImage
from controller.metadata.partition import NO_LEADER, Partition
from protocol.messages.topics.metadata import MetadataRequest
from protocol.uuid import Uuid
from tests.controller.handlers.cluster import DrivenCluster
from tests.controller.image_facts import image_facts
from tests.simulation.model import Model


@dataclass
class Simulated:
    """One simulation: the real thing, the model, what the log alone says, and what was seen before."""

    cluster: DrivenCluster
    model: Model
    shadow: MetadataImage = field(default_factory=MetadataImage)
    seen_partitions: dict[tuple[Uuid, int], Partition] = field(default_factory=dict)
    seen_epochs: dict[int, int] = field(default_factory=dict)

    def partitions(self) -> dict[tuple[Uuid, int], Partition]:
        image = self.cluster.image
        return {
            (topic.topic_id, index): image.partitions.read(topic.row, index)
            for topic in image.topics_by_name.values()
            for index in range(image.partition_count(topic))
        }


def the_isr_is_among_the_replicas(simulated: Simulated) -> None:
    for partition in simulated.partitions().values():
        assert set(partition.isr) <= set(partition.replicas)
        assert len(set(partition.isr)) == len(partition.isr)
        assert len(set(partition.replicas)) == len(partition.replicas)


def the_leader_is_in_sync_and_live_or_nobody_leads(simulated: Simulated) -> None:
    live = set(simulated.cluster.image.live_brokers().ids.tolist())
    for partition in simulated.partitions().values():
        assert partition.leader == NO_LEADER or partition.leader in partition.isr
        assert partition.leader == NO_LEADER or partition.leader in live
        assert set(partition.isr) <= live


def who_is_eligible_is_not_in_sync(simulated: Simulated) -> None:
    for partition in simulated.partitions().values():
        assert not set(partition.eligible_leader_replicas) & set(partition.isr)
        assert set(partition.eligible_leader_replicas) <= set(partition.replicas)
        assert partition.leader == NO_LEADER or not partition.last_known_elr


def epochs_only_grow(simulated: Simulated) -> None:
    """And whatever changes a partition moves its epoch; another leader moves both."""
    now = simulated.partitions()
    for key, before in simulated.seen_partitions.items():
        if (after := now.get(key)) is not None:
            assert after.leader_epoch >= before.leader_epoch
            assert after.partition_epoch >= before.partition_epoch
            assert after == before or after.partition_epoch > before.partition_epoch
            assert after.leader == before.leader or after.leader_epoch > before.leader_epoch
    simulated.seen_partitions = now
    for broker in simulated.cluster.image.brokers.values():
        assert broker.broker_epoch >= simulated.seen_epochs.get(broker.broker_id, -1)
        simulated.seen_epochs[broker.broker_id] = broker.broker_epoch


def the_image_is_what_the_model_says(simulated: Simulated) -> None:
    image, model = simulated.cluster.image, simulated.model
    assert {
        broker_id: (broker.broker_epoch, broker.fenced, broker.in_controlled_shutdown)
        for broker_id, broker in image.brokers.items()
    } == {broker_id: (broker.epoch, broker.fenced, broker.leaving) for broker_id, broker in model.brokers.items()}
    assert {name: topic.topic_id for name, topic in image.topics_by_name.items()} == {
        name: topic.topic_id for name, topic in model.topics.items()
    }
    actual = simulated.partitions()
    for topic in model.topics.values():
        for index, expected in enumerate(topic.partitions):
            partition = actual.pop((topic.topic_id, index))
            assert (
                list(partition.replicas),
                list(partition.isr),
                partition.leader,
                partition.leader_epoch,
                partition.partition_epoch,
                list(partition.eligible_leader_replicas),
                list(partition.last_known_elr),
                partition.leader_recovery_state == 1,
            ) == tuple(vars(expected).values())
    assert not actual
    assert image.total_partitions() == sum(len(topic.partitions) for topic in model.topics.values())


def clients_see_what_the_model_says(simulated: Simulated) -> None:
    model = simulated.model
    shown = [broker_id for broker_id, broker in sorted(model.brokers.items()) if not broker.fenced]
    response = simulated.cluster.ask(MetadataRequest(topics=None))
    assert [broker.node_id for broker in response.brokers] == shown
    assert {
        topic.name: [
            (partition.leader_id, list(partition.isr_nodes), list(partition.offline_replicas))
            for partition in topic.partitions
        ]
        for topic in response.topics
    } == {
        name: [
            (partition.leader, partition.isr, [replica for replica in partition.replicas if replica not in shown])
            for partition in topic.partitions
        ]
        for name, topic in model.topics.items()
    }


def the_log_alone_gives_the_image(simulated: Simulated) -> None:
    assert image_facts(simulated.shadow) == image_facts(simulated.cluster.image)


INVARIANTS: tuple[Callable[[Simulated], None], ...] = (
    the_isr_is_among_the_replicas,
    the_leader_is_in_sync_and_live_or_nobody_leads,
    who_is_eligible_is_not_in_sync,
    epochs_only_grow,
    the_image_is_what_the_model_says,
    clients_see_what_the_model_says,
    the_log_alone_gives_the_image,
)
