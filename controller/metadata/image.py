"""The metadata image: the state of the cluster according to the metadata log.

Handlers read the image; only replay changes it. The image consists of kinds of state. `MetadataImage.kinds` is the only
list of them: replay, snapshots and the comparisons in tests iterate over it. This module has lookups that several
handlers need, but no rules.
"""

from collections.abc import Mapping
from typing import Any

from klamm.controller.metadata.acls import AclTable
from klamm.controller.metadata.broker_set import BrokerSet
from klamm.controller.metadata.brokers import Brokers
from klamm.controller.metadata.client_quotas import ClientQuotas
from klamm.controller.metadata.configs import BROKER_RESOURCE, TOPIC_RESOURCE, Configs
from klamm.controller.metadata.controllers import Controllers
from klamm.controller.metadata.delegation_tokens import DelegationTokens
from klamm.controller.metadata.features import Features
from klamm.controller.metadata.kind import Kind, Replay
from klamm.controller.metadata.no_state import NoState
from klamm.controller.metadata.producer_ids import ProducerIds
from klamm.controller.metadata.scram_credentials import ScramCredentials
from klamm.controller.metadata.topic import INTERNAL_TOPICS, Topic, collision_key
from klamm.controller.metadata.topics import Topics
from klamm.protocol.fields import Message

__all__ = ["BROKER_RESOURCE", "INTERNAL_TOPICS", "TOPIC_RESOURCE", "MetadataImage", "Topic", "collision_key"]


class MetadataImage:
    """The state of the cluster at one offset of the log."""

    def __init__(self) -> None:
        self.features = Features()
        self.brokers = Brokers()
        self.controllers = Controllers()
        self.configs = Configs()
        self.topics = Topics(self.configs)
        self.client_quotas = ClientQuotas()
        self.producer_ids = ProducerIds()
        self.acls = AclTable()
        self.scram_credentials = ScramCredentials()
        self.delegation_tokens = DelegationTokens()
        self.kinds: tuple[Kind, ...] = (
            self.features,
            self.brokers,
            self.controllers,
            self.topics,
            self.configs,
            self.client_quotas,
            self.producer_ids,
            self.acls,
            self.scram_credentials,
            self.delegation_tokens,
            NoState(),
        )
        """In the order in which snapshots and Kafka's image writer list them."""
        self.next_offset = 0
        """The offset after the last replayed record."""
        # Short names for the tables that handlers use most. These are the same objects.
        self.topics_by_name = self.topics.by_name
        self.topics_by_id = self.topics.by_id
        self.topics_by_row = self.topics.by_row
        self.collision_keys = self.topics.collision_keys
        self.partitions = self.topics.partitions
        self.usage = self.topics.usage
        self.replays: dict[type[Message], Replay] = {}
        """By record type: the function that applies a record."""
        self.run_replays: dict[type[Message], Replay] = {}
        """By record type: the function that applies a run of records as columns."""
        for kind in self.kinds:
            self.replays |= kind.replays()
            self.run_replays |= kind.run_replays()

    def facts(self) -> dict[str, Any]:
        """The facts of all kinds of state, for comparison with another image."""
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
        """The brokers that clients see: the live ones, and those in controlled shutdown, which still answer."""
        return BrokerSet(broker.broker_id for broker in self.brokers.values() if not broker.fenced)

    def config(self, resource_type: int, resource_name: str) -> Mapping[str, str]:
        """The dynamic configs of one resource."""
        return self.configs.get((resource_type, resource_name), {})
