"""The metadata image: everything the log says about the cluster, ready to be asked.

Handlers read it; replay alone changes it. Lookups that several handlers need stand here as methods; rules do not.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from klamm.controller.metadata.acls import AclTable
from klamm.controller.metadata.broker import BrokerState
from klamm.controller.metadata.broker_set import BrokerSet
from klamm.controller.metadata.partition_table import PartitionTable
from klamm.controller.metadata.usage import UNLIMITED_TOPICS, ReplicaUsage
from klamm.protocol.uuid import Uuid

# Resource types of ConfigRecord and of the config APIs.
TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
# What Metadata calls internal. The topics that KIP-578 never counts nor refuses are fewer (docs/profiles.md).
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__share_group_state", "__transaction_state"})


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic's names. `row` is its number among all topics ever created, ascending in creation order."""

    name: str
    topic_id: Uuid
    row: int

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


class MetadataImage:
    """The state of the cluster at one offset of the log."""

    def __init__(self) -> None:
        self.topics_by_name: dict[str, Topic] = {}
        self.topics_by_id: dict[Uuid, Topic] = {}
        self.topics_by_row: dict[int, Topic] = {}
        self.brokers: dict[int, BrokerState] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.acls = AclTable()
        self.partitions = PartitionTable()
        self.usage = ReplicaUsage()
        self.next_topic_row = 0
        self.next_producer_id = 0
        """The first producer id that no broker was given."""
        self.next_offset = 0
        """The offset behind the last record replayed."""
        self.liveness_changes = 0
        """Grows whenever a broker may have become live or stopped being so: a cue for work that waits for brokers."""
        self.room_changes = 0
        """Grows whenever brokers may have got room for replicas: a cue for placeholders that wait to be filled."""
        self.catch_up_changes = 0
        """Grows whenever a replica may have begun to catch up with its leader."""
        self.collision_keys: dict[str, set[str]] = {}
        """The names that are one when dots are read as underscores: such names collide."""

    def set_broker(self, broker: BrokerState) -> None:
        """Replay's way to register or change a broker."""
        self.brokers[broker.broker_id] = broker
        self.liveness_changes += 1
        self.room_changes += 1
        self.catch_up_changes += 1

    def partition_count(self, topic: Topic) -> int:
        return self.partitions.partition_count(topic.row)

    def unlimited_rows(self) -> list[int]:
        """The rows of the topics that KIP-578 neither counts nor limits."""
        found = (self.topics_by_name.get(name) for name in UNLIMITED_TOPICS)
        return [topic.row for topic in found if topic is not None]

    def total_partitions(self) -> int:
        """All topic partitions of the cluster, internal ones included."""
        return sum(table.count - table.dead for table in self.partitions.tables.values())

    def live_brokers(self) -> BrokerSet:
        """The brokers that may lead and be in sync."""
        return BrokerSet(broker.broker_id for broker in self.brokers.values() if broker.live)

    def unfenced_brokers(self) -> BrokerSet:
        """The brokers that clients are told of: those in controlled shutdown still answer."""
        return BrokerSet(broker.broker_id for broker in self.brokers.values() if not broker.fenced)

    def config(self, resource_type: int, resource_name: str) -> Mapping[str, str]:
        """The dynamic configs of one resource."""
        return self.configs.get((resource_type, resource_name), {})


def collision_key(topic_name: str) -> str | None:
    """The form in which two names collide (dots and underscores are one in metric names); None if none can."""
    if "." in topic_name or "_" in topic_name:
        return topic_name.replace(".", "_")
    return None
