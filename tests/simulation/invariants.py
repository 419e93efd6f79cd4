"""What holds after every step of a simulation, one named function each. They assert; they change nothing."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import NO_LEADER, Partition
from klamm.protocol.messages.topics.metadata import MetadataRequest
from klamm.protocol.uuid import Uuid
from tests.controller.handlers.cluster import DrivenCluster
from tests.controller.image_facts import image_facts
from tests.simulation.model import Model
from tests.simulation.model_configs import BROKER, MIN_ISR, TOPIC, UNLIMITED_TOPICS, ModelConfigs

COMPARED = 10
"""Of what the model knows of a partition this is in the image; its records are beside it."""


class Shown(Protocol):
    """What the invariants look at that need no model: they hold in `tests.simulation.cluster`, too."""

    @property
    def image(self) -> MetadataImage: ...

    @property
    def shadow(self) -> MetadataImage:
        """What the log alone says."""
        ...

    @property
    def configs(self) -> ModelConfigs: ...

    def partitions(self) -> dict[tuple[Uuid, int], Partition]: ...


@dataclass
class Simulated:
    """One simulation: the real thing, the model, what the log alone says, and what was seen before."""

    cluster: DrivenCluster
    model: Model
    shadow: MetadataImage = field(default_factory=MetadataImage)
    seen_partitions: dict[tuple[Uuid, int], Partition] = field(default_factory=dict)
    seen_epochs: dict[int, int] = field(default_factory=dict)
    seen_usage: "Recount" = field(default_factory=lambda: Recount(Counter(), 0, 0))
    asked: int | None = None
    """Whose limits the replicas of this step had to keep; None: those of the cluster as such."""

    @property
    def image(self) -> MetadataImage:
        return self.cluster.image

    @property
    def configs(self) -> ModelConfigs:
        return self.model.configs

    def partitions(self) -> dict[tuple[Uuid, int], Partition]:
        image = self.cluster.image
        return {
            (topic.topic_id, index): image.partitions.read(topic.row, index)
            for topic in image.topics_by_name.values()
            for index in range(image.partition_count(topic))
        }


class Recount(NamedTuple):
    """What KIP-578's limits count, and the placeholders, counted from the partitions themselves."""

    replicas: Counter[int]
    partitions: int
    placeholders: int


def recount(image: MetadataImage) -> Recount:
    replicas: Counter[int] = Counter()
    partitions = placeholders = 0
    for topic in image.topics_by_name.values():
        limited = topic.name not in UNLIMITED_TOPICS
        for index in range(image.partition_count(topic)):
            row = image.partitions.read(topic.row, index).replicas
            placeholders += sum(replica < 0 for replica in row)
            partitions += limited
            replicas.update(replica for replica in row if limited and replica >= 0)
    return Recount(replicas, partitions, placeholders)


def limits_are_never_newly_exceeded(simulated: Simulated) -> None:
    """Whoever is over a limit gains nothing; a lowered limit takes nothing away (KIP-578: soft)."""
    before, now = simulated.seen_usage, recount(simulated.cluster.image)
    limits = simulated.model.configs.limits(simulated.asked)
    for broker_id, held in now.replicas.items():
        assert held <= limits.replicas or held <= before.replicas[broker_id]
    assert now.partitions <= limits.partitions or now.partitions <= before.partitions
    simulated.seen_usage = now


def usage_is_what_a_recount_gives(shown: Shown) -> None:
    for image in (shown.image, shown.shadow):
        counted = recount(image)
        assert {broker: held for broker, held in image.usage.replicas.items() if held} == dict(counted.replicas)
        assert (image.usage.partitions, image.usage.placeholders) == counted[1:]


def placeholders_stand_last_and_never_lead_nor_are_in_sync(shown: Shown) -> None:
    """At most 16 of a partition, each another one."""
    for partition in shown.partitions().values():
        real = sum(replica >= 0 for replica in partition.replicas)
        placeholders = partition.replicas[real:]
        assert real >= 1
        assert all(-16 <= replica < 0 for replica in placeholders)
        assert list(placeholders) == sorted(placeholders, reverse=True)
        assert partition.leader >= NO_LEADER
        assert all(replica >= 0 for replica in (*partition.isr, *partition.eligible_leader_replicas))
        assert all(replica >= 0 for replica in partition.last_known_elr)


def no_placeholder_is_left_that_a_broker_could_fill(shown: Shown) -> None:
    """Live, not cordoned, of the partition's kind, not in the partition, and with room by the cluster-wide limit; not
    while reassigning."""
    image, limit = shown.image, shown.configs.limits(None).replicas
    held = recount(image).replicas
    live = [broker.broker_id for broker in image.brokers.values() if broker.live and not broker.cordoned]
    for (topic_id, _), partition in shown.partitions().items():
        if min(partition.replicas) >= 0 or partition.reassigning:
            continue
        unlimited = image.topics_by_id[topic_id].name in UNLIMITED_TOPICS
        kinds = _kinds(image, partition)
        for broker_id in live:
            if (broker_id in image.brokers.real) in kinds:
                assert broker_id in partition.replicas or (held[broker_id] >= limit and not unlimited)


def a_partition_is_on_brokers_of_one_kind(shown: Shown) -> None:
    for partition in shown.partitions().values():
        assert len(_kinds(shown.image, partition)) <= 1


def _kinds(image: MetadataImage, partition: Partition) -> set[bool]:
    """Whether the registered brokers among the replicas are real ones."""
    return {replica in image.brokers.real for replica in partition.replicas if replica in image.brokers}


def configs_are_what_was_set(simulated: Simulated) -> None:
    image, model = simulated.cluster.image, simulated.model
    assert {name: values for (kind, name), values in image.configs.items() if kind == BROKER} == {
        name: values for name, values in model.configs.dynamic.items() if values
    }
    assert {
        name: values[MIN_ISR] for (kind, name), values in image.configs.items() if kind == TOPIC and MIN_ISR in values
    } == {name: str(topic.min_isr) for name, topic in model.topics.items() if topic.min_isr is not None}


def the_isr_is_among_the_replicas(shown: Shown) -> None:
    for partition in shown.partitions().values():
        assert set(partition.isr) <= set(partition.replicas)
        assert len(set(partition.isr)) == len(partition.isr)
        assert len(set(partition.replicas)) == len(partition.replicas)


def the_leader_is_in_sync_and_live_or_nobody_leads(shown: Shown) -> None:
    live = set(shown.image.live_brokers().ids.tolist())
    for partition in shown.partitions().values():
        assert partition.leader == NO_LEADER or partition.leader in partition.isr
        assert partition.leader == NO_LEADER or partition.leader in live
        assert set(partition.isr) <= live


def who_is_eligible_is_not_in_sync(shown: Shown) -> None:
    for partition in shown.partitions().values():
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
        broker_id: (broker.broker_epoch, broker.fenced, broker.in_controlled_shutdown, broker.cordoned)
        for broker_id, broker in image.brokers.items()
    } == {
        broker_id: (broker.epoch, broker.fenced, broker.leaving, broker.cordoned)
        for broker_id, broker in model.brokers.items()
    }
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
                list(partition.adding_replicas),
                list(partition.removing_replicas),
            ) == tuple(vars(expected).values())[:COMPARED]
    assert not actual
    assert image.total_partitions() == sum(len(topic.partitions) for topic in model.topics.values())


def clients_see_what_the_model_says(simulated: Simulated) -> None:
    model = simulated.model
    shown = [broker_id for broker_id, broker in sorted(model.brokers.items()) if not broker.fenced]
    response = simulated.cluster.ask(MetadataRequest(topics=None))
    assert [broker.node_id for broker in response.brokers] == shown
    assert {
        topic.name: [
            (
                partition.leader_id,
                list(partition.replica_nodes),
                list(partition.isr_nodes),
                list(partition.offline_replicas),
            )
            for partition in topic.partitions
        ]
        for topic in response.topics
    } == {
        name: [
            (
                partition.leader,
                partition.replicas,
                partition.isr,
                [replica for replica in partition.replicas if replica not in shown],
            )
            for partition in topic.partitions
        ]
        for name, topic in model.topics.items()
    }


def every_answered_change_is_in_the_log_which_alone_gives_the_image(simulated: Simulated) -> None:
    assert image_facts(simulated.shadow) == image_facts(simulated.cluster.image)


INVARIANTS: tuple[Callable[[Simulated], None], ...] = (
    the_isr_is_among_the_replicas,
    the_leader_is_in_sync_and_live_or_nobody_leads,
    who_is_eligible_is_not_in_sync,
    placeholders_stand_last_and_never_lead_nor_are_in_sync,
    no_placeholder_is_left_that_a_broker_could_fill,
    a_partition_is_on_brokers_of_one_kind,
    limits_are_never_newly_exceeded,
    usage_is_what_a_recount_gives,
    epochs_only_grow,
    configs_are_what_was_set,
    the_image_is_what_the_model_says,
    clients_see_what_the_model_says,
    every_answered_change_is_in_the_log_which_alone_gives_the_image,
)
