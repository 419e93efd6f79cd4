"""An example of each record that can be replayed. All values differ from the defaults."""

from klamm.protocol.fields import Message
from klamm.protocol.records.brokers import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from klamm.protocol.records.cluster import (
    ControllerEndpoint,
    ControllerFeature,
    FeatureLevelRecord,
    RegisterControllerRecord,
)
from klamm.protocol.records.configs import ClientQuotaRecord, ConfigRecord, EntityData
from klamm.protocol.records.partitions import ClearElrRecord, PartitionChangeRecord, PartitionRecord
from klamm.protocol.records.security import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from klamm.protocol.records.topics import RemoveTopicRecord, TopicRecord
from tests.controller.cluster_states import uuid_of

TOPIC = TopicRecord(name="t", topic_id=uuid_of(1))
TOKEN = DelegationTokenRecord(token_id="t", owner="User:a", requester="User:b", renewers=["User:c"], issue_timestamp=1)
TOKEN.expiration_timestamp, TOKEN.max_timestamp = 2, 3
SAYING: dict[type[Message], Message] = {
    type(record): record
    for record in (
        FeatureLevelRecord(name="share.version", feature_level=1),
        RegisterBrokerRecord(
            broker_id=9,
            incarnation_id=uuid_of(5),
            broker_epoch=77,
            end_points=[BrokerEndpoint(name="SSL", host="::1", port=4711, security_protocol=1)],
            features=[BrokerFeature(name="group.version", min_supported_version=1, max_supported_version=2)],
            rack="a",
            fenced=False,
            in_controlled_shutdown=True,
            log_dirs=[uuid_of(6), uuid_of(7)],
            cordoned_log_dirs=[uuid_of(7)],
        ),
        TOPIC,
        PartitionRecord(
            partition_id=0,
            topic_id=TOPIC.topic_id,
            replicas=[4, 3, 2, 1],
            isr=[3, 4],
            removing_replicas=[1],
            adding_replicas=[2],
            leader=3,
            leader_recovery_state=1,
            leader_epoch=5,
            partition_epoch=6,
            directories=[uuid_of(number) for number in (11, 12, 13, 14)],
            eligible_leader_replicas=[2],
            last_known_elr=[1],
        ),
        ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="7"),
        ClientQuotaRecord(
            entity=[
                EntityData(entity_type="client-id", entity_name=None),
                EntityData(entity_type="user", entity_name="u"),
            ],
            key="request_percentage",
            value=12.5,
        ),
        ProducerIdsRecord(broker_id=9, broker_epoch=77, next_producer_id=5_000),
        RegisterControllerRecord(
            controller_id=3001,
            incarnation_id=uuid_of(9),
            zk_migration_ready=True,
            end_points=[ControllerEndpoint(name="SSL", host="::1", port=4711, security_protocol=1)],
            features=[ControllerFeature(name="group.version", min_supported_version=1, max_supported_version=2)],
        ),
        AccessControlEntryRecord(
            id=uuid_of(8),
            resource_type=2,
            resource_name="t",
            pattern_type=3,
            principal="User:a",
            host="::1",
            operation=4,
            permission_type=3,
        ),
        UserScramCredentialRecord(
            name="u", mechanism=2, salt=b"salt", stored_key=b"stored", server_key=b"server", iterations=4_097
        ),
        TOKEN,
    )
}
"""Records that are in a snapshot, each with a different value in every field."""
CHANGES_OF_ALL: dict[type[Message], Message] = {
    type(record): record
    for record in (
        BrokerRegistrationChangeRecord(
            broker_id=9,
            broker_epoch=77,
            fenced=1,
            in_controlled_shutdown=-1,
            log_dirs=[uuid_of(8)],
            cordoned_log_dirs=[uuid_of(8)],
        ),
        UnregisterBrokerRecord(broker_id=9, broker_epoch=77),
        FenceBrokerRecord(id=9, epoch=77),
        UnfenceBrokerRecord(id=10, epoch=78),
        PartitionChangeRecord(
            partition_id=0,
            topic_id=TOPIC.topic_id,
            isr=[4],
            leader=4,
            replicas=[4, 5],
            removing_replicas=[5],
            adding_replicas=[4],
            leader_recovery_state=0,
            directories=[uuid_of(14), uuid_of(15)],
            eligible_leader_replicas=[5],
            last_known_elr=[4],
        ),
        RemoveTopicRecord(topic_id=TOPIC.topic_id),
        ClearElrRecord(topic_name=TOPIC.name),
        RemoveAccessControlEntryRecord(id=uuid_of(8)),
        RemoveUserScramCredentialRecord(name="u", mechanism=2),
        RemoveDelegationTokenRecord(token_id="t"),
    )
}
"""For each record that changes other records, an instance that changes one of `SAYING`."""
