"""The rights that each request needs: one or several rows for every served API. A row of an API that is not served is
not used."""

from collections.abc import Callable
from typing import Any

from klamm.controller.authorizer import AclOperation
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.messages.brokers import (
    broker_heartbeat,
    broker_registration,
    unregister_broker,
)
from klamm.protocol.messages.cluster import api_versions, describe_cluster
from klamm.protocol.messages.configs import (
    alter_client_quotas,
    alter_configs,
    describe_client_quotas,
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
)
from klamm.protocol.messages.data import delete_records, describe_producers, fetch, list_offsets, produce
from klamm.protocol.messages.groups import list_groups
from klamm.protocol.messages.partitions import (
    alter_partition,
    alter_partition_reassignments,
    elect_leaders,
    list_partition_reassignments,
    offset_for_leader_epoch,
    replica_status,
)
from klamm.protocol.messages.security import (
    create_acls,
    delete_acls,
    describe_acls,
    sasl_authenticate,
    sasl_handshake,
)
from klamm.protocol.messages.topics import (
    alter_topics,
    create_partitions,
    create_topics,
    delete_topics,
    describe_topic_partitions,
    metadata,
)
from klamm.protocol.messages.transactions import init_producer_id, list_transactions
from tests.controller.handlers.authorization_row import (
    CLUSTER_DENIED,
    GROUP_DENIED,
    TOPIC_DENIED,
    Right,
    Row,
    group,
    on_cluster,
    topic,
)
from tests.controller.handlers.credential_rows import CREDENTIAL_ROWS, TOKEN_APIS
from tests.controller.handlers.group_rows import GROUP_ROWS
from tests.controller.handlers.guarded_cluster import (
    deletion,
    description,
    entry,
)
from tests.controller.handlers.log_dir_rows import LOG_DIR_ROWS
from tests.controller.handlers.quorum_rows import QUORUM_ROWS, TELEMETRY
from tests.controller.handlers.raft_rows import RAFT_ROWS
from tests.controller.handlers.share_rows import SHARE_ROWS
from tests.controller.handlers.transaction_rows import TRANSACTION_ROWS

TOPIC_CONFIGS, BROKER_CONFIGS, LOGGER, METRICS_CONFIGS, GROUP_CONFIGS = 2, 4, 8, 16, 32


OP = AclOperation
CREATE, DELETE, ALTER, DESCRIBE = OP.CREATE, OP.DELETE, OP.ALTER, OP.DESCRIBE


def named(name: str) -> list[Any]:
    return [metadata.MetadataRequestTopic(name=name)]


def config_rows(
    what: str, kind: int, right: Callable[[AclOperation], Right], refusal: ErrorCode, fixed: str | None = None
) -> list[Row]:
    """Describe and alter the configs of one kind of resource; `right` gives the resource on which the operation is a
    right."""

    def described(name: str) -> Message:
        resource = describe_configs.DescribeConfigsResource(
            resource_type=kind, resource_name=name if fixed is None else fixed, configuration_keys=["x"]
        )
        return describe_configs.DescribeConfigsRequest(resources=[resource])

    def altered(module: Any) -> Callable[[str], Message]:
        def request(name: str) -> Message:
            change = module.AlterableConfig(name="flush.ms", value="5")
            resource = module.AlterConfigsResource(
                resource_type=kind, resource_name=name if fixed is None else fixed, configs=[change]
            )
            made: Message = module.API.request(resources=[resource])
            return made

        return request

    may_alter = [right(OP.ALTER_CONFIGS)]
    may_see = [right(OP.DESCRIBE_CONFIGS), *may_alter]
    rows = [
        Row(f"DescribeConfigs of {what}", describe_configs.API, described, may_see, refusal),
        Row(
            f"IncrementalAlterConfigs of {what}",
            incremental_alter_configs.API,
            altered(incremental_alter_configs),
            may_alter,
            refusal,
        ),
        Row(f"AlterConfigs of {what}", alter_configs.API, altered(alter_configs), may_alter, refusal),
    ]
    return rows if kind != LOGGER else rows[:2]


def of_partition(topic_class: type[Any], one: Any, by: str = "name", of: str = "partitions") -> Callable[[str], Any]:
    """The part of a request about one partition of a topic."""
    return lambda name: topic_class(**{by: name, of: [one]})


PRODUCED = of_partition(produce.TopicProduceData, produce.PartitionProduceData(records=b""), of="partition_data")
FETCHED = of_partition(fetch.FetchTopic, fetch.FetchPartition(partition_max_bytes=1), by="topic")
LISTED = of_partition(list_offsets.ListOffsetsTopic, list_offsets.ListOffsetsPartition(timestamp=-1))
DELETED = of_partition(delete_records.DeleteRecordsTopic, delete_records.DeleteRecordsPartition())
ENDED = of_partition(
    offset_for_leader_epoch.OffsetForLeaderTopic, offset_for_leader_epoch.OffsetForLeaderPartition(), by="topic"
)
PRODUCERS = of_partition(describe_producers.TopicRequest, 0, of="partition_indexes")
QUOTAS = alter_client_quotas.EntryData(
    entity=[alter_client_quotas.EntityData(entity_type="user", entity_name="u")],
    ops=[alter_client_quotas.OpData(key="request_percentage", value=50.0)],
)

CREATABLE = create_topics.CreatableTopic
ROWS = [
    *GROUP_ROWS,
    *LOG_DIR_ROWS,
    *RAFT_ROWS,
    *SHARE_ROWS,
    *QUORUM_ROWS,
    *TRANSACTION_ROWS,
    Row(
        "CreateTopics",
        create_topics.API,
        lambda name: create_topics.CreateTopicsRequest(
            topics=[CREATABLE(name=name, num_partitions=1, replication_factor=1)], timeout_ms=1000
        ),
        [topic(CREATE), on_cluster(CREATE), topic(OP.ALL)],
        TOPIC_DENIED,
    ),
    Row(
        "CreatePartitions",
        create_partitions.API,
        lambda name: create_partitions.CreatePartitionsRequest(
            topics=[create_partitions.CreatePartitionsTopic(name=name, count=2)], timeout_ms=1000
        ),
        [topic(ALTER)],
        TOPIC_DENIED,
    ),
    Row(
        "DeleteTopics by name",
        delete_topics.API,
        lambda name: delete_topics.DeleteTopicsRequest(
            topics=[delete_topics.DeleteTopicState(name=name)], timeout_ms=1000
        ),
        [topic(DELETE), on_cluster(DELETE)],
        TOPIC_DENIED,
    ),
    Row(
        "DeleteTopics, old",
        delete_topics.API,
        lambda name: delete_topics.DeleteTopicsRequest(topic_names=[name], timeout_ms=1000),
        [topic(DELETE), on_cluster(DELETE)],
        TOPIC_DENIED,
        version=1,
    ),
    Row(
        "Metadata",
        metadata.API,
        lambda name: metadata.MetadataRequest(topics=named(name), allow_auto_topic_creation=False),
        [topic(DESCRIBE), topic(OP.READ), topic(OP.WRITE), topic(DELETE), topic(ALTER)],
        TOPIC_DENIED,
    ),
    Row(
        "DescribeTopicPartitions",
        describe_topic_partitions.API,
        lambda name: describe_topic_partitions.DescribeTopicPartitionsRequest(
            topics=[describe_topic_partitions.TopicRequest(name=name)]
        ),
        [topic(DESCRIBE), topic(OP.READ)],
        TOPIC_DENIED,
    ),
    *config_rows("a topic", TOPIC_CONFIGS, topic, TOPIC_DENIED),
    *config_rows("a group", GROUP_CONFIGS, group, GROUP_DENIED),
    *config_rows("a broker", BROKER_CONFIGS, on_cluster, CLUSTER_DENIED, "1"),
    *config_rows("all brokers", BROKER_CONFIGS, on_cluster, CLUSTER_DENIED, ""),
    *config_rows("a logger", LOGGER, on_cluster, CLUSTER_DENIED, "1"),
    *config_rows("a subscription", METRICS_CONFIGS, on_cluster, CLUSTER_DENIED),
    Row(
        "ListConfigResources",
        list_config_resources.API,
        lambda name: list_config_resources.ListConfigResourcesRequest(),
        [on_cluster(OP.DESCRIBE_CONFIGS), on_cluster(OP.ALTER_CONFIGS)],
        CLUSTER_DENIED,
    ),
    Row(
        "DescribeClientQuotas",
        describe_client_quotas.API,
        lambda name: describe_client_quotas.DescribeClientQuotasRequest(),
        [on_cluster(OP.DESCRIBE_CONFIGS), on_cluster(OP.ALTER_CONFIGS)],
        CLUSTER_DENIED,
    ),
    Row(
        "AlterClientQuotas",
        alter_client_quotas.API,
        lambda name: alter_client_quotas.AlterClientQuotasRequest(entries=[QUOTAS]),
        [on_cluster(OP.ALTER_CONFIGS)],
        CLUSTER_DENIED,
    ),
    Row(
        "DescribeCluster of the controller",
        describe_cluster.API,
        lambda name: describe_cluster.DescribeClusterRequest(endpoint_type=2),
        [on_cluster(ALTER)],
        CLUSTER_DENIED,
        by_controller=True,
    ),
    Row(
        "UnregisterBroker",
        unregister_broker.API,
        lambda name: unregister_broker.UnregisterBrokerRequest(broker_id=99),
        [on_cluster(ALTER)],
        CLUSTER_DENIED,
    ),
    Row(
        "BrokerRegistration",
        broker_registration.API,
        lambda name: broker_registration.BrokerRegistrationRequest(broker_id=1, cluster_id="x"),
        [on_cluster(OP.CLUSTER_ACTION)],
        CLUSTER_DENIED,
    ),
    Row(
        "BrokerHeartbeat",
        broker_heartbeat.API,
        lambda name: broker_heartbeat.BrokerHeartbeatRequest(broker_id=1),
        [on_cluster(OP.CLUSTER_ACTION)],
        CLUSTER_DENIED,
    ),
    Row(
        "AlterPartition",
        alter_partition.API,
        lambda name: alter_partition.AlterPartitionRequest(broker_id=1),
        [on_cluster(OP.CLUSTER_ACTION)],
        CLUSTER_DENIED,
    ),
    Row(
        "AlterPartitionReassignments",
        alter_partition_reassignments.API,
        lambda name: alter_partition_reassignments.AlterPartitionReassignmentsRequest(),
        [on_cluster(ALTER)],
        CLUSTER_DENIED,
    ),
    Row(
        "ListPartitionReassignments",
        list_partition_reassignments.API,
        lambda name: list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None),
        [on_cluster(DESCRIBE)],
        CLUSTER_DENIED,
    ),
    Row(
        "ElectLeaders",
        elect_leaders.API,
        lambda name: elect_leaders.ElectLeadersRequest(topic_partitions=None),
        [on_cluster(ALTER)],
        CLUSTER_DENIED,
    ),
    Row(
        "AlterTopics",
        alter_topics.API,
        lambda name: alter_topics.AlterTopicsRequest(
            alter_topic_requests=[alter_topics.AlterTopicRequest(topic=name, num_partitions=2)]
        ),
        [on_cluster(OP.CLUSTER_ACTION)],
        CLUSTER_DENIED,
    ),
    Row(
        "ReplicaStatus",
        replica_status.API,
        lambda name: replica_status.ReplicaStatusRequest(
            replica_status_requests=[replica_status.ReplicaStatusRequestEntry(topic=name, broker=1)]
        ),
        [on_cluster(DESCRIBE)],
        CLUSTER_DENIED,
    ),
    Row(
        "Produce",
        produce.API,
        lambda name: produce.ProduceRequest(acks=1, topic_data=[PRODUCED(name)]),
        [topic(OP.WRITE)],
        TOPIC_DENIED,
        version=12,
    ),
    Row(
        "Fetch",
        fetch.API,
        lambda name: fetch.FetchRequest(topics=[FETCHED(name)]),
        [topic(OP.READ)],
        TOPIC_DENIED,
        version=12,
    ),
    Row(
        "Fetch by a broker",
        fetch.API,
        lambda name: fetch.FetchRequest(replica_id=2, topics=[FETCHED(name)]),
        [on_cluster(OP.CLUSTER_ACTION)],
        TOPIC_DENIED,
        version=12,
    ),
    Row(
        "ListOffsets",
        list_offsets.API,
        lambda name: list_offsets.ListOffsetsRequest(replica_id=-1, topics=[LISTED(name)]),
        [topic(DESCRIBE), topic(OP.READ)],
        TOPIC_DENIED,
    ),
    Row(
        "OffsetForLeaderEpoch",
        offset_for_leader_epoch.API,
        lambda name: offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=[ENDED(name)]),
        [topic(DESCRIBE), on_cluster(OP.CLUSTER_ACTION)],
        TOPIC_DENIED,
    ),
    Row(
        "DeleteRecords",
        delete_records.API,
        lambda name: delete_records.DeleteRecordsRequest(topics=[DELETED(name)]),
        [topic(DELETE)],
        TOPIC_DENIED,
    ),
    Row(
        "DescribeProducers",
        describe_producers.API,
        lambda name: describe_producers.DescribeProducersRequest(topics=[PRODUCERS(name)]),
        [topic(OP.READ)],
        TOPIC_DENIED,
    ),
    Row(
        "InitProducerId",
        init_producer_id.API,
        lambda name: init_producer_id.InitProducerIdRequest(transactional_id=None),
        [on_cluster(OP.IDEMPOTENT_WRITE)],
        CLUSTER_DENIED,
    ),
    Row("DescribeAcls", describe_acls.API, lambda name: description(), [on_cluster(DESCRIBE)], CLUSTER_DENIED),
    Row(
        "CreateAcls",
        create_acls.API,
        lambda name: create_acls.CreateAclsRequest(creations=[entry(OP.READ, name)]),
        [on_cluster(ALTER)],
        CLUSTER_DENIED,
    ),
    *CREDENTIAL_ROWS,
    Row(
        "DeleteAcls",
        delete_acls.API,
        lambda name: delete_acls.DeleteAclsRequest(filters=[deletion(resource_name_filter=name)]),
        [on_cluster(ALTER)],
        CLUSTER_DENIED,
    ),
]

FREE = (
    frozenset({api_versions.API, list_groups.API, list_transactions.API, sasl_handshake.API, sasl_authenticate.API})
    | TOKEN_APIS
    | TELEMETRY
)
"""The APIs that need no right. ListGroups and ListTransactions return what the requester may describe. The rights on
delegation tokens are tested in test_delegation_tokens.py."""
