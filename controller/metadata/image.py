"""The metadata image: everything the log says about the cluster, ready to be asked.

Handlers read it; replay alone changes it. It is made of kinds of state, and `kinds` is the one list of them: what
stands there is replayed, is in snapshots and is compared by tests, and nothing else is. Lookups that several handlers
need stand here as methods; rules do not.
"""

from collections.abc import Mapping
from typing import Any

from klamm.controller.metadata.acls import AclTable
from klamm.controller.metadata.broker_set import BrokerSet
from klamm.controller.metadata.brokers import Brokers
from klamm.controller.metadata.client_quotas import ClientQuotas
from klamm.controller.metadata.configs import BROKER_RESOURCE, TOPIC_RESOURCE, Configs
from klamm.controller.metadata.features import Features
from klamm.controller.metadata.kind import Kind, Replay
from klamm.controller.metadata.no_state import NoState
from klamm.controller.metadata.producer_ids import ProducerIds
from klamm.controller.metadata.topic import INTERNAL_TOPICS, Topic, collision_key
from klamm.controller.metadata.topics import Topics
from klamm.protocol.fields import Message

__all__ = ["BROKER_RESOURCE", "INTERNAL_TOPICS", "TOPIC_RESOURCE", "MetadataImage", "Topic", "collision_key"]


class MetadataImage:
    """The state of the cluster at one offset of the log."""

    def __init__(self) -> None:
        self.features = Features()
        self.brokers = Brokers()
        self.configs = Configs()
        self.topics = Topics(self.configs)
        self.client_quotas = ClientQuotas()
        self.producer_ids = ProducerIds()
        self.acls = AclTable()
        self.kinds: tuple[Kind, ...] = (
            self.features,
            self.brokers,
            self.topics,
            self.configs,
            self.client_quotas,
            self.producer_ids,
            self.acls,
            NoState(),
        )
        """In the order of snapshots, which is that of Kafka's own image writer."""
        self.next_offset = 0
        """The offset behind the last record replayed."""
        # What is asked most, by shorter names. These are the same objects.
        self.topics_by_name = self.topics.by_name
        self.topics_by_id = self.topics.by_id
        self.topics_by_row = self.topics.by_row
        self.collision_keys = self.topics.collision_keys
        self.partitions = self.topics.partitions
        self.usage = self.topics.usage
        self.replays: dict[type[Message], Replay] = {}
        """How a record of each type is applied."""
        self.run_replays: dict[type[Message], Replay] = {}
        """How a run of records as columns is applied."""
        for kind in self.kinds:
            self.replays |= kind.replays()
            self.run_replays |= kind.run_replays()

    def facts(self) -> dict[str, Any]:
        """All that the kinds of state say, as plain values: for comparison with another image."""
        return {name: fact for kind in self.kinds for name, fact in kind.facts().items()}

    @property
    def next_producer_id(self) -> int:
        """The first producer id that no broker was given."""
        return self.producer_ids.next

    def partition_count(self, topic: Topic) -> int:
        return self.topics.partition_count(topic)

    def unlimited_rows(self) -> list[int]:
        """The rows of the topics that KIP-578 neither counts nor limits."""
        return self.topics.unlimited_rows()

    def total_partitions(self) -> int:
        """All topic partitions of the cluster, internal ones included."""
        return self.partitions.total()

    def live_brokers(self) -> BrokerSet:
        """The brokers that may lead and be in sync."""
        return BrokerSet(broker.broker_id for broker in self.brokers.values() if broker.live)

    def unfenced_brokers(self) -> BrokerSet:
        """The brokers that clients are told of: those in controlled shutdown still answer."""
        return BrokerSet(broker.broker_id for broker in self.brokers.values() if not broker.fenced)

    def config(self, resource_type: int, resource_name: str) -> Mapping[str, str]:
        """The dynamic configs of one resource."""
        return self.configs.get((resource_type, resource_name), {})
