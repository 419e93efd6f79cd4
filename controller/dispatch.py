"""The APIs that the controller decides, with their handlers.

Adding one is one line here, beside its message module and its handler (docs/add-an-api.md). `klamm.broker.dispatch` has
the APIs of the brokers, and the list of all.
"""

from typing import Any, Final

from klamm.controller.handler import Handlers
from klamm.controller.handlers.acls.create_acls import handle_create_acls
from klamm.controller.handlers.acls.delete_acls import handle_delete_acls
from klamm.controller.handlers.acls.describe_acls import handle_describe_acls
from klamm.controller.handlers.acls.unreadable import UNREADABLE
from klamm.controller.handlers.brokers.allocate_producer_ids import handle_allocate_producer_ids
from klamm.controller.handlers.brokers.assign_replicas_to_dirs import handle_assign_replicas_to_dirs
from klamm.controller.handlers.brokers.broker_heartbeat import handle_broker_heartbeat
from klamm.controller.handlers.brokers.broker_registration import handle_broker_registration
from klamm.controller.handlers.brokers.envelope import handle_envelope
from klamm.controller.handlers.brokers.unregister_broker import handle_unregister_broker
from klamm.controller.handlers.cluster.api_versions import handle_api_versions
from klamm.controller.handlers.cluster.describe_cluster import handle_describe_cluster
from klamm.controller.handlers.cluster.describe_quorum import handle_describe_quorum
from klamm.controller.handlers.cluster.update_features import handle_update_features
from klamm.controller.handlers.configs.alter_configs import handle_alter_configs
from klamm.controller.handlers.configs.describe_configs import handle_describe_configs
from klamm.controller.handlers.configs.incremental_alter_configs import handle_incremental_alter_configs
from klamm.controller.handlers.configs.list_config_resources import handle_list_config_resources
from klamm.controller.handlers.partitions.alter_partition import handle_alter_partition
from klamm.controller.handlers.partitions.alter_partition_reassignments import handle_alter_partition_reassignments
from klamm.controller.handlers.partitions.elect_leaders import handle_elect_leaders
from klamm.controller.handlers.partitions.list_partition_reassignments import handle_list_partition_reassignments
from klamm.controller.handlers.quorum.controller_registration import handle_controller_registration
from klamm.controller.handlers.quorum.elections import (
    handle_begin_quorum_epoch,
    handle_end_quorum_epoch,
    handle_vote,
)
from klamm.controller.handlers.quorum.fetch_snapshot import handle_fetch_snapshot
from klamm.controller.handlers.quorum.voter_changes import (
    handle_add_raft_voter,
    handle_remove_raft_voter,
    handle_update_raft_voter,
)
from klamm.controller.handlers.quotas.alter_client_quotas import handle_alter_client_quotas
from klamm.controller.handlers.quotas.describe_client_quotas import handle_describe_client_quotas
from klamm.controller.handlers.sasl.sasl_authenticate import handle_sasl_authenticate
from klamm.controller.handlers.sasl.sasl_handshake import handle_sasl_handshake
from klamm.controller.handlers.scram.alter_user_scram_credentials import handle_alter_user_scram_credentials
from klamm.controller.handlers.scram.describe_user_scram_credentials import handle_describe_user_scram_credentials
from klamm.controller.handlers.tokens.create_delegation_token import handle_create_delegation_token
from klamm.controller.handlers.tokens.describe_delegation_token import handle_describe_delegation_token
from klamm.controller.handlers.tokens.expire_delegation_token import handle_expire_delegation_token
from klamm.controller.handlers.tokens.renew_delegation_token import handle_renew_delegation_token
from klamm.controller.handlers.topics.alter_topics import handle_alter_topics
from klamm.controller.handlers.topics.create_partitions import handle_create_partitions
from klamm.controller.handlers.topics.create_topics import handle_create_topics
from klamm.controller.handlers.topics.delete_topics import handle_delete_topics
from klamm.controller.handlers.topics.describe_topic_partitions import handle_describe_topic_partitions
from klamm.controller.handlers.topics.metadata import handle_metadata
from klamm.protocol.api import Api
from klamm.protocol.fields import Message
from klamm.protocol.messages.brokers import (
    allocate_producer_ids,
    assign_replicas_to_dirs,
    broker_heartbeat,
    broker_registration,
    envelope,
    unregister_broker,
)
from klamm.protocol.messages.cluster import api_versions, describe_cluster, update_features
from klamm.protocol.messages.configs import (
    alter_client_quotas,
    alter_configs,
    describe_client_quotas,
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
)
from klamm.protocol.messages.partitions import (
    alter_partition,
    alter_partition_reassignments,
    elect_leaders,
    list_partition_reassignments,
)
from klamm.protocol.messages.raft import (
    add_raft_voter,
    begin_quorum_epoch,
    controller_registration,
    describe_quorum,
    end_quorum_epoch,
    fetch_snapshot,
    remove_raft_voter,
    update_raft_voter,
    vote,
)
from klamm.protocol.messages.security import (
    alter_user_scram_credentials,
    create_acls,
    delete_acls,
    describe_acls,
    describe_user_scram_credentials,
    sasl_authenticate,
    sasl_handshake,
)
from klamm.protocol.messages.tokens import (
    create_delegation_token,
    describe_delegation_token,
    expire_delegation_token,
    renew_delegation_token,
)
from klamm.protocol.messages.topics import (
    alter_topics,
    create_partitions,
    create_topics,
    delete_topics,
    describe_topic_partitions,
    metadata,
)

HANDLERS: Final[Handlers] = {
    metadata.API: handle_metadata,
    sasl_handshake.API: handle_sasl_handshake,
    api_versions.API: handle_api_versions,
    create_topics.API: handle_create_topics,
    delete_topics.API: handle_delete_topics,
    describe_acls.API: handle_describe_acls,
    create_acls.API: handle_create_acls,
    delete_acls.API: handle_delete_acls,
    describe_configs.API: handle_describe_configs,
    alter_configs.API: handle_alter_configs,
    incremental_alter_configs.API: handle_incremental_alter_configs,
    list_config_resources.API: handle_list_config_resources,
    sasl_authenticate.API: handle_sasl_authenticate,
    create_partitions.API: handle_create_partitions,
    alter_topics.API: handle_alter_topics,
    elect_leaders.API: handle_elect_leaders,
    alter_partition_reassignments.API: handle_alter_partition_reassignments,
    list_partition_reassignments.API: handle_list_partition_reassignments,
    create_delegation_token.API: handle_create_delegation_token,
    renew_delegation_token.API: handle_renew_delegation_token,
    expire_delegation_token.API: handle_expire_delegation_token,
    describe_delegation_token.API: handle_describe_delegation_token,
    describe_user_scram_credentials.API: handle_describe_user_scram_credentials,
    alter_user_scram_credentials.API: handle_alter_user_scram_credentials,
    describe_client_quotas.API: handle_describe_client_quotas,
    alter_client_quotas.API: handle_alter_client_quotas,
    describe_quorum.API: handle_describe_quorum,
    update_features.API: handle_update_features,
    add_raft_voter.API: handle_add_raft_voter,
    remove_raft_voter.API: handle_remove_raft_voter,
    update_raft_voter.API: handle_update_raft_voter,
    alter_partition.API: handle_alter_partition,
    describe_cluster.API: handle_describe_cluster,
    envelope.API: handle_envelope,
    fetch_snapshot.API: handle_fetch_snapshot,
    vote.API: handle_vote,
    begin_quorum_epoch.API: handle_begin_quorum_epoch,
    end_quorum_epoch.API: handle_end_quorum_epoch,
    controller_registration.API: handle_controller_registration,
    broker_registration.API: handle_broker_registration,
    broker_heartbeat.API: handle_broker_heartbeat,
    unregister_broker.API: handle_unregister_broker,
    allocate_producer_ids.API: handle_allocate_producer_ids,
    assign_replicas_to_dirs.API: handle_assign_replicas_to_dirs,
    describe_topic_partitions.API: handle_describe_topic_partitions,
}


def is_readable(api: Api[Any, Any], request: Message) -> bool:
    """Whether Kafka accepts a request that can be decoded. On a few of them it closes the connection nevertheless."""
    return api not in UNREADABLE or not UNREADABLE[api](request)
