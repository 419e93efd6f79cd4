"""Converts between the values of `klamm.admin.types` and the messages of `protocol`.

No I/O and no bytes. Fields that an old version does not have are defaults in the message and None in the value.
"""

from collections.abc import Iterable, Mapping, Sequence

from klamm.admin.errors import NotSupportedByBroker, RequestFailed, decode_error
from klamm.admin.types import (
    Broker,
    ClusterDescription,
    ClusterMetadata,
    ConfigAlteration,
    ConfigEntry,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    ConfigSynonym,
    CreatedTopic,
    NewPartitions,
    NewTopic,
    PartitionDescription,
    ResourceConfigs,
    ResourceResult,
    TopicAlteration,
    TopicDescription,
    TopicResult,
)
from klamm.protocol.messages.cluster.describe_cluster import DescribeClusterResponse
from klamm.protocol.messages.configs import alter_configs, incremental_alter_configs
from klamm.protocol.messages.configs.describe_configs import (
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from klamm.protocol.messages.topics.alter_topics import AlterTopicRequest, PartitionAssignment
from klamm.protocol.messages.topics.create_partitions import CreatePartitionsAssignment, CreatePartitionsTopic
from klamm.protocol.messages.topics.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
)
from klamm.protocol.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from klamm.protocol.messages.topics.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from klamm.protocol.messages.topics.metadata import (
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from klamm.protocol.uuid import ZERO_UUID, Uuid

DELETION_BY_ID_SINCE = 6


def encode_new_topic(topic: NewTopic | str) -> CreatableTopic:
    if isinstance(topic, str):
        topic = NewTopic(topic)
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(broker_ids))
            for index, broker_ids in topic.replica_assignments.items()
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


def encode_new_partitions(topic: NewPartitions) -> CreatePartitionsTopic:
    assignments = topic.replica_assignments
    return CreatePartitionsTopic(
        name=topic.topic_name,
        count=topic.total_count,
        assignments=None
        if assignments is None
        else [CreatePartitionsAssignment(broker_ids=list(broker_ids)) for broker_ids in assignments],
    )


def encode_topic_alteration(alteration: TopicAlteration) -> AlterTopicRequest:
    return AlterTopicRequest(
        topic=alteration.topic_name,
        num_partitions=alteration.num_partitions,
        replication_factor=alteration.replication_factor,
        partition_assignment=[
            PartitionAssignment(partition_id=index, brokers=list(broker_ids))
            for index, broker_ids in alteration.replica_assignments.items()
        ],
    )


def encode_deletion(topics: Iterable[str | Uuid], version: int, timeout_ms: int) -> DeleteTopicsRequest:
    """Older versions take a list of names, and no ids."""
    wanted = list(topics)
    if version >= DELETION_BY_ID_SINCE:
        states = [
            DeleteTopicState(topic_id=topic) if isinstance(topic, Uuid) else DeleteTopicState(name=topic)
            for topic in wanted
        ]
        return DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)
    names = [topic for topic in wanted if isinstance(topic, str)]
    if len(names) < len(wanted):
        raise NotSupportedByBroker("DeleteTopics", f"version {version} deletes by name only")
    return DeleteTopicsRequest(topic_names=names, timeout_ms=timeout_ms)


def encode_topic_reference(topic: str | Uuid) -> MetadataRequestTopic:
    if isinstance(topic, Uuid):
        return MetadataRequestTopic(topic_id=topic, name=None)
    return MetadataRequestTopic(name=topic)


def encode_config_resource(resource: ConfigResource, keys: Sequence[str] | None) -> DescribeConfigsResource:
    return DescribeConfigsResource(
        resource_type=resource.type,
        resource_name=resource.name,
        configuration_keys=None if keys is None else list(keys),
    )


def encode_alterations(
    resource: ConfigResource, alterations: Iterable[ConfigAlteration]
) -> incremental_alter_configs.AlterConfigsResource:
    return incremental_alter_configs.AlterConfigsResource(
        resource_type=resource.type,
        resource_name=resource.name,
        configs=[
            incremental_alter_configs.AlterableConfig(name=one.name, config_operation=one.operation, value=one.value)
            for one in alterations
        ],
    )


def encode_configs(resource: ConfigResource, configs: Mapping[str, str | None]) -> alter_configs.AlterConfigsResource:
    return alter_configs.AlterConfigsResource(
        resource_type=resource.type,
        resource_name=resource.name,
        configs=[alter_configs.AlterableConfig(name=name, value=value) for name, value in configs.items()],
    )


def decode_resource_result(
    result: alter_configs.AlterConfigsResourceResponse | incremental_alter_configs.AlterConfigsResourceResponse,
) -> ResourceResult:
    return ResourceResult(
        error=decode_error(result.error_code, result.error_message),
        resource=ConfigResource(ConfigResourceType(result.resource_type), result.resource_name),
    )


def decode_created_topic(topic: CreatableTopicResult) -> CreatedTopic:
    return CreatedTopic(
        error=decode_error(topic.error_code, topic.error_message),
        topic_name=topic.name,
        topic_id=_known_id(topic.topic_id),
        num_partitions=_known(topic.num_partitions),
        replication_factor=_known(topic.replication_factor),
        configs={config.name: config.value for config in topic.configs or ()},
    )


def decode_topic_result(name: str | None, topic_id: Uuid | None, error_code: int, message: str | None) -> TopicResult:
    return TopicResult(error=decode_error(error_code, message), topic_name=name, topic_id=_known_id(topic_id))


def decode_metadata(answer: MetadataResponse) -> ClusterMetadata:
    if (error := decode_error(answer.error_code)) is not None:
        raise RequestFailed("Metadata", error)
    return ClusterMetadata(
        cluster_id=answer.cluster_id,
        controller_id=_known(answer.controller_id),
        brokers=tuple(Broker(broker.node_id, broker.host, broker.port, broker.rack) for broker in answer.brokers),
        topics=tuple(_decode_topic(topic, map(_decode_partition, topic.partitions)) for topic in answer.topics),
    )


def decode_cluster(answer: DescribeClusterResponse) -> ClusterDescription:
    if (error := decode_error(answer.error_code, answer.error_message)) is not None:
        raise RequestFailed("DescribeCluster", error)
    return ClusterDescription(
        cluster_id=answer.cluster_id,
        controller_id=_known(answer.controller_id),
        brokers=tuple(
            Broker(broker.broker_id, broker.host, broker.port, broker.rack, broker.is_fenced)
            for broker in answer.brokers
        ),
    )


def decode_resource_configs(result: DescribeConfigsResult) -> ResourceConfigs:
    return ResourceConfigs(
        error=decode_error(result.error_code, result.error_message),
        resource=ConfigResource(ConfigResourceType(result.resource_type), result.resource_name),
        configs={config.name: _decode_config(config) for config in result.configs},
    )


def _decode_config(config: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        name=config.name,
        value=config.value,
        source=ConfigSource(config.config_source),
        read_only=config.read_only,
        is_sensitive=config.is_sensitive,
        synonyms=tuple(ConfigSynonym(s.name, s.value, ConfigSource(s.source)) for s in config.synonyms),
        documentation=config.documentation or None,
    )


class TopicPages:
    """The pages of DescribeTopicPartitions, joined: a topic may be spread over several pages."""

    def __init__(self) -> None:
        self.cursor: Cursor | None = None
        self.complete = False
        self._topics: dict[str | None, TopicDescription] = {}

    @property
    def topics(self) -> tuple[TopicDescription, ...]:
        return tuple(self._topics.values())

    def add(self, answer: DescribeTopicPartitionsResponse) -> bool:
        """Add a page; False if the next page would begin where this one did, which would never end."""
        for topic in answer.topics:
            earlier = self._topics.get(topic.name)
            page = _decode_topic(topic, map(_decode_partition_with_elr, topic.partitions), earlier)
            self._topics[topic.name] = page
        before, self.cursor = self.cursor, answer.next_cursor
        self.complete = self.cursor is None
        return self.complete or self.cursor != before


def _decode_topic(
    topic: MetadataResponseTopic | DescribeTopicPartitionsResponseTopic,
    partitions: Iterable[PartitionDescription],
    earlier: TopicDescription | None = None,
) -> TopicDescription:
    by_index = {partition.partition_index: partition for partition in earlier.partitions} if earlier else {}
    by_index.update((partition.partition_index, partition) for partition in partitions)
    return TopicDescription(
        error=decode_error(topic.error_code),
        topic_name=topic.name,
        topic_id=_known_id(topic.topic_id),
        is_internal=topic.is_internal,
        partitions=tuple(by_index[index] for index in sorted(by_index)),
    )


def _decode_partition(partition: MetadataResponsePartition) -> PartitionDescription:
    return PartitionDescription(
        error=decode_error(partition.error_code),
        partition_index=partition.partition_index,
        leader=_known(partition.leader_id),
        leader_epoch=_known(partition.leader_epoch),
        replicas=tuple(partition.replica_nodes),
        isr=tuple(partition.isr_nodes),
        offline_replicas=tuple(partition.offline_replicas),
    )


def _decode_partition_with_elr(partition: DescribeTopicPartitionsResponsePartition) -> PartitionDescription:
    return PartitionDescription(
        error=decode_error(partition.error_code),
        partition_index=partition.partition_index,
        leader=_known(partition.leader_id),
        leader_epoch=_known(partition.leader_epoch),
        replicas=tuple(partition.replica_nodes),
        isr=tuple(partition.isr_nodes),
        offline_replicas=tuple(partition.offline_replicas),
        eligible_leader_replicas=tuple(partition.eligible_leader_replicas or ()),
        last_known_eligible_leader_replicas=tuple(partition.last_known_elr or ()),
    )


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _known_id(topic_id: Uuid | None) -> Uuid | None:
    return None if topic_id == ZERO_UUID else topic_id
