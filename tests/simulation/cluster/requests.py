"""What random clients ask: good and bad requests of most APIs, about few topics, to get in each other's way."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from klamm.controller.metadata.image import MetadataImage, Topic
from klamm.controller.metadata.partition import Partition
from klamm.protocol.api import Api
from klamm.protocol.fields import Message
from klamm.protocol.messages.brokers import describe_log_dirs
from klamm.protocol.messages.cluster import api_versions, describe_cluster
from klamm.protocol.messages.configs import describe_configs, incremental_alter_configs
from klamm.protocol.messages.configs.incremental_alter_configs import AlterableConfig, AlterConfigsResource
from klamm.protocol.messages.data import fetch, list_offsets, produce
from klamm.protocol.messages.partitions import (
    alter_partition_reassignments,
    elect_leaders,
    list_partition_reassignments,
    replica_status,
)
from klamm.protocol.messages.topics import (
    alter_topics,
    create_partitions,
    create_topics,
    delete_topics,
    describe_topic_partitions,
    metadata,
)
from klamm.protocol.messages.topics.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
)
from klamm.protocol.messages.transactions import init_producer_id
from tests.broker.data.batches import batch
from tests.simulation.cluster.world import OUTSIDE_IDS, World
from tests.simulation.model_configs import (
    BROKER,
    DELETE,
    MAX_BROKER_PARTITIONS,
    MAX_PARTITIONS,
    MIN_ISR,
    SET,
    TOPIC,
    UNDER_REPLICATED,
)

Request = tuple[Api[Any, Any], Message]
NAMES = ("apple", "pear", "plum.tree", "plum_tree", "quince", "__consumer_offsets", "")
TIMEOUT_MS = 5_000
PREFERRED, UNCLEAN = 0, 1
"""Kinds of elections."""
ALL_LEVELS = ""


class Asker:
    """Makes requests of one world for one client."""

    def __init__(self, world: World, chance: Random) -> None:
        self._world = world
        self._chance = chance

    def make(self, broker_id: int | None) -> Request:
        """A request to this broker; to the controller if there is none."""
        kinds = ON_BROKERS if broker_id is not None else ON_THE_CONTROLLER
        [kind] = self._chance.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])
        return kind(self)

    @property
    def _image(self) -> MetadataImage:
        return self._world.living.image

    def _name(self) -> str:
        internal = 0 if self._world.keeps_internal else 1
        return self._chance.choices(NAMES, (5, 4, 2, 2, 4, internal, 0.2))[0]

    def _broker_ids(self) -> Sequence[int]:
        known = [*range(1, self._world.brokers + 1), *self._image.brokers]
        return sorted({*known, *OUTSIDE_IDS[:1]})

    def _row(self, size: int | None = None) -> list[int]:
        """Replicas, mostly of brokers that there are."""
        known = sorted(self._image.brokers) if self._chance.random() < 0.9 else list(self._broker_ids())
        return self._chance.sample(known, min(len(known), size or self._chance.randint(1, 3)))

    def _place(self) -> tuple[Topic, int, Partition] | None:
        """Some partition that there is."""
        topics = list(self._image.topics_by_name.values())
        if not topics:
            return None
        topic = self._chance.choice(topics)
        index = self._chance.randrange(self._image.partition_count(topic))
        return topic, index, self._image.partitions.read(topic.row, index)

    def _seldom(self) -> bool:
        return self._chance.random() < 0.1

    def create_topics(self) -> Request:
        topics = []
        for name in sorted({self._name() for _ in range(self._chance.choice((1, 1, 2, 3)))}):
            topic = CreatableTopic(
                name=name,
                num_partitions=self._chance.choice((-1, 1, 2, 3, 4)),
                replication_factor=self._chance.choice((-1, 1, 2, 3, 3, 4)),
                configs=[
                    CreatableTopicConfig(name=config, value=value)
                    for config, value in self._chance.choice(TOPIC_CONFIGS)
                ],
            )
            if self._seldom():
                topic.num_partitions = topic.replication_factor = -1
                size = self._chance.randint(1, 3)
                topic.assignments = [
                    CreatableReplicaAssignment(partition_index=index, broker_ids=self._row(size)) for index in range(2)
                ]
            topics.append(topic)
        request = create_topics.CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS, validate_only=self._seldom())
        return create_topics.API, request

    def delete_topics(self) -> Request:
        name = self._name()
        topics = [delete_topics.DeleteTopicState(name=name)]
        return delete_topics.API, delete_topics.DeleteTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS)

    def create_partitions(self) -> Request:
        name = self._name()
        topic = self._image.topics_by_name.get(name)
        count = (self._image.partition_count(topic) if topic else 0) + self._chance.choice((0, 1, 1, 2))
        wanted = create_partitions.CreatePartitionsTopic(name=name, count=min(count, 8), assignments=None)
        return create_partitions.API, create_partitions.CreatePartitionsRequest(
            topics=[wanted], timeout_ms=TIMEOUT_MS, validate_only=self._seldom()
        )

    def alter_topics(self) -> Request:
        one = alter_topics.AlterTopicRequest(
            topic=self._name(),
            num_partitions=self._chance.choice((-1, -1, 3, 5)),
            replication_factor=self._chance.choice((-1, 1, 2, 3)),
        )
        return alter_topics.API, alter_topics.AlterTopicsRequest(alter_topic_requests=[one], timeout=TIMEOUT_MS)

    def alter_configs(self) -> Request:
        if self._chance.random() < 0.4:
            kind, name = TOPIC, self._name()
            edits = self._chance.choice(TOPIC_CONFIGS)
        else:
            kind, name = BROKER, self._chance.choice((ALL_LEVELS, ALL_LEVELS, "1", "2"))
            edits = self._chance.choice(BROKER_CONFIGS)
        deleted = self._chance.random() < 0.4
        configs = [
            AlterableConfig(name=config, config_operation=DELETE if deleted else SET, value=None if deleted else value)
            for config, value in edits
        ]
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=[resource], validate_only=self._seldom()
        )
        return incremental_alter_configs.API, request

    def reassign(self) -> Request:
        topics: list[alter_partition_reassignments.ReassignableTopic] = []
        for _ in range(self._chance.choice((1, 1, 3))):
            place = self._place()
            if place is not None and place[0].name not in [topic.name for topic in topics]:
                topic, index, partition = place
                back = partition.reassigning and self._chance.random() < 0.3
                kept = [one for one in partition.replicas if one >= 0][: self._chance.randint(0, 2)]
                target = [*kept, *[one for one in self._row() if one not in kept]]
                moved = alter_partition_reassignments.ReassignablePartition(
                    partition_index=index, replicas=None if back or self._seldom() else target
                )
                topics.append(alter_partition_reassignments.ReassignableTopic(name=topic.name, partitions=[moved]))
        return alter_partition_reassignments.API, alter_partition_reassignments.AlterPartitionReassignmentsRequest(
            timeout_ms=TIMEOUT_MS, topics=topics
        )

    def elect(self) -> Request:
        place = self._place()
        wanted = None
        if place is not None and self._chance.random() < 0.7:
            wanted = [elect_leaders.TopicPartitions(topic=place[0].name, partitions=[place[1]])]
        kind = self._chance.choice((PREFERRED, PREFERRED, UNCLEAN))
        if self._world.keeps_internal and (place is None or wanted is None or place[0].is_internal):
            kind = PREFERRED
        return elect_leaders.API, elect_leaders.ElectLeadersRequest(
            election_type=kind, topic_partitions=wanted, timeout_ms=TIMEOUT_MS
        )

    def produce(self) -> Request:
        place = self._place()
        if place is None:
            return self.metadata()
        topic, index, _ = place
        self._world.batches += 1
        value = b"<%d>" % self._world.batches
        data = produce.PartitionProduceData(index=index, records=batch(self._chance.choice((1, 2, 10)), value=value))
        topics = [produce.TopicProduceData(name=topic.name, topic_id=topic.topic_id, partition_data=[data])]
        return produce.API, produce.ProduceRequest(
            acks=self._chance.choice((-1, -1, -1, 1, 0)), timeout_ms=TIMEOUT_MS, topic_data=topics
        )

    def fetch(self) -> Request:
        place = self._place()
        if place is None:
            return self.metadata()
        topic, index, _ = place
        partition = fetch.FetchPartition(
            partition=index, fetch_offset=self._chance.choice((0, 0, 3, 20)), partition_max_bytes=1 << 20
        )
        topics = [fetch.FetchTopic(topic=topic.name, topic_id=topic.topic_id, partitions=[partition])]
        return fetch.API, fetch.FetchRequest(
            max_wait_ms=self._chance.choice((0, 100, TIMEOUT_MS)), min_bytes=1, topics=topics
        )

    def list_offsets(self) -> Request:
        place = self._place()
        if place is None:
            return self.metadata()
        one = list_offsets.ListOffsetsPartition(partition_index=place[1], timestamp=self._chance.choice((-1, -2, -3)))
        topics = [list_offsets.ListOffsetsTopic(name=place[0].name, partitions=[one])]
        return list_offsets.API, list_offsets.ListOffsetsRequest(replica_id=-1, topics=topics)

    def replica_status(self) -> Request:
        place = self._place()
        if place is None:
            return self.metadata()
        topic, index, partition = place
        entries = [
            replica_status.ReplicaStatusRequestEntry(topic=topic.name, partition_id=index, broker=one)
            for one in partition.replicas
        ]
        return replica_status.API, replica_status.ReplicaStatusRequest(replica_status_requests=entries)

    def metadata(self) -> Request:
        """Of all topics, or of some that are made by the way."""
        if self._chance.random() < 0.7:
            return metadata.API, metadata.MetadataRequest(topics=None, allow_auto_topic_creation=False)
        topics = [metadata.MetadataRequestTopic(name=self._name())]
        return metadata.API, metadata.MetadataRequest(
            topics=topics, allow_auto_topic_creation=self._chance.random() < 0.5
        )

    def describe_topics(self) -> Request:
        topics = [describe_topic_partitions.TopicRequest(name=self._name())]
        return describe_topic_partitions.API, describe_topic_partitions.DescribeTopicPartitionsRequest(topics=topics)

    def describe_configs(self) -> Request:
        kind = self._chance.choice((TOPIC, BROKER))
        name = self._name() if kind == TOPIC else self._chance.choice(("1", ""))
        resource = describe_configs.DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=None
        )
        return describe_configs.API, describe_configs.DescribeConfigsRequest(resources=[resource])

    def look_around(self) -> Request:
        return self._chance.choice(
            (
                (describe_cluster.API, describe_cluster.DescribeClusterRequest()),
                (
                    api_versions.API,
                    api_versions.ApiVersionsRequest(client_software_name="s", client_software_version="1"),
                ),
                (
                    list_partition_reassignments.API,
                    list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None),
                ),
            )
        )

    def describe_log_dirs(self) -> Request:
        return describe_log_dirs.API, describe_log_dirs.DescribeLogDirsRequest(topics=None)

    def init_producer_id(self) -> Request:
        return init_producer_id.API, init_producer_id.InitProducerIdRequest(transactional_id=None)


TOPIC_CONFIGS: tuple[list[tuple[str, str]], ...] = (
    [],
    [],
    [(MIN_ISR, "1")],
    [(MIN_ISR, "2")],
    [("unclean.leader.election.enable", "true")],
    [(MIN_ISR, "3"), ("retention.ms", "100000")],
)
BROKER_CONFIGS: tuple[list[tuple[str, str]], ...] = (
    [(MAX_BROKER_PARTITIONS, "4")],
    [(MAX_BROKER_PARTITIONS, "10")],
    [(MAX_PARTITIONS, "8")],
    [(MAX_PARTITIONS, "25")],
    [(UNDER_REPLICATED, "true")],
    [(UNDER_REPLICATED, "true"), (MAX_BROKER_PARTITIONS, "6")],
    [(UNDER_REPLICATED, "false")],
    [(MIN_ISR, "2")],
)
ON_BOTH: tuple[tuple[Callable[[Asker], Request], float], ...] = (
    (Asker.create_topics, 8),
    (Asker.delete_topics, 3),
    (Asker.create_partitions, 4),
    (Asker.alter_configs, 5),
    (Asker.reassign, 6),
    (Asker.elect, 3),
    (Asker.describe_configs, 0.5),
    (Asker.look_around, 1),
)
ON_BROKERS = (
    *ON_BOTH,
    (Asker.alter_topics, 2),
    (Asker.produce, 12),
    (Asker.fetch, 4),
    (Asker.list_offsets, 1),
    (Asker.replica_status, 1),
    (Asker.metadata, 6),
    (Asker.describe_topics, 1),
    (Asker.describe_log_dirs, 0.5),
    (Asker.init_producer_id, 1),
)
ON_THE_CONTROLLER = ON_BOTH
