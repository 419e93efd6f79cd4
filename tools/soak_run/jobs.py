"""The work of each cycle of the soak, one function for each kind of client; each removes everything that it creates.

Names contain the cycle's number and are never used again, so that state that a server keeps by the name of a topic, a
client or a principal would grow. Each function returns its number of answers, and raises WrongAnswer, or an exception
of its library, if one of them is wrong.
"""

import random
import socket
from collections.abc import Sequence

from klamm.control.client import ControlClient
from klamm.protocol.messages.cluster import api_versions
from klamm.protocol.messages.configs import describe_configs, incremental_alter_configs
from klamm.protocol.messages.partitions import alter_partition_reassignments, list_partition_reassignments
from klamm.protocol.messages.security import create_acls, delete_acls
from klamm.protocol.messages.topics import create_partitions, create_topics, delete_topics, metadata
from klamm.protocol.messages.transactions import init_producer_id
from tools.soak_run.conversation import Ask, Conversation, WrongAnswer

TOPICS = 20
PARTITIONS = 5
REPLICATION_FACTOR = 2
ROUNDS = 12
"""Requests about each topic while it exists."""
DROPPED_CONNECTIONS = 40
TOPIC_RESOURCE, TOPIC_IN_ACL = 2, 2
LITERAL, ALLOW, READ, ANY_PATTERN = 3, 3, 3, 1
RESTARTED_BROKER = 3
GARBAGE_BYTES = 512


def ask_everything(address: tuple[str, int], cycle: int) -> int:
    """Topics created, changed, described, moved and deleted over one connection, with several requests in flight."""
    names = [f"soak-{cycle}-{number}" for number in range(TOPICS)]
    with Conversation(address, f"soak-{cycle}") as talk:
        talk.ask_all([_create(name) for name in names])
        talk.ask_all([_alter_config(name, cycle) for name in names])
        talk.ask_all([_enlarge(name) for name in names])
        talk.ask_all([_move(name) for name in names])
        for _ in range(ROUNDS):
            talk.ask_all([ask for name in names for ask in (_metadata(name), _configs(name), _moves(name))])
            talk.ask_all([(init_producer_id.API, init_producer_id.InitProducerIdRequest(transactional_id=None))])
        talk.ask_all([_create_acl(name) for name in names])
        talk.ask_all([_delete_acls(name) for name in names])
        _check_partitions(talk, names)
        talk.ask_all([_delete(name) for name in names])
        left = talk.ask(metadata.API, metadata.MetadataRequest(topics=None)).topics
        if mine := [topic.name for topic in left if topic.name in names]:
            raise WrongAnswer(f"Metadata has topics that were deleted: {mine}")
        return talk.count


def come_and_go(address: tuple[str, int], cycle: int) -> int:
    """Connections that end in every way: after an answer, with the answer unread, in half a frame, after garbage."""
    count = 0
    rng = random.Random(cycle)
    whole = _api_versions_frame(cycle)
    for number in range(DROPPED_CONNECTIONS):
        with socket.create_connection(address, timeout=60.0) as sock:
            match number % 4:
                case 0:
                    sock.sendall(whole)
                    count += bool(sock.recv(4096))
                case 1:
                    sock.sendall(whole * 10)
                case 2:
                    sock.sendall(whole[: rng.randrange(1, len(whole))])
                case _:
                    sock.sendall(rng.randbytes(GARBAGE_BYTES))
    return count


def restart_broker(control_url: str, cycle: int) -> int:
    """One broker is shut down, or crashes, and starts again."""
    control = ControlClient(control_url)
    control.stop_broker(RESTARTED_BROKER, "crash" if cycle % 2 else "shutdown")
    control.start_broker(RESTARTED_BROKER)
    return 0


def _create(name: str) -> Ask:
    topic = create_topics.CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=REPLICATION_FACTOR)
    return create_topics.API, create_topics.CreateTopicsRequest(topics=[topic])


def _delete(name: str) -> Ask:
    topics = [delete_topics.DeleteTopicState(name=name)]
    return delete_topics.API, delete_topics.DeleteTopicsRequest(topics=topics, timeout_ms=60_000)


def _alter_config(name: str, cycle: int) -> Ask:
    # Also values that are never used again.
    config = incremental_alter_configs.AlterableConfig(name="retention.ms", value=str(1_000_000 + cycle))
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=name, configs=[config]
    )
    return incremental_alter_configs.API, incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])


def _enlarge(name: str) -> Ask:
    topic = create_partitions.CreatePartitionsTopic(name=name, count=PARTITIONS + 1, assignments=None)
    return create_partitions.API, create_partitions.CreatePartitionsRequest(topics=[topic], timeout_ms=60_000)


def _move(name: str) -> Ask:
    partitions = [
        alter_partition_reassignments.ReassignablePartition(partition_index=index, replicas=[1 + index % 2, 3])
        for index in range(PARTITIONS)
    ]
    topic = alter_partition_reassignments.ReassignableTopic(name=name, partitions=partitions)
    return alter_partition_reassignments.API, alter_partition_reassignments.AlterPartitionReassignmentsRequest(
        topics=[topic]
    )


def _moves(name: str) -> Ask:
    topic = list_partition_reassignments.ListPartitionReassignmentsTopics(
        name=name, partition_indexes=list(range(PARTITIONS))
    )
    return list_partition_reassignments.API, list_partition_reassignments.ListPartitionReassignmentsRequest(
        topics=[topic]
    )


def _metadata(name: str) -> Ask:
    topic = metadata.MetadataRequestTopic(name=name)
    return metadata.API, metadata.MetadataRequest(topics=[topic], allow_auto_topic_creation=False)


def _configs(name: str) -> Ask:
    resource = describe_configs.DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=None
    )
    return describe_configs.API, describe_configs.DescribeConfigsRequest(resources=[resource])


def _create_acl(name: str) -> Ask:
    creation = create_acls.AclCreation(
        resource_type=TOPIC_IN_ACL,
        resource_name=name,
        resource_pattern_type=LITERAL,
        principal=f"User:{name}",
        host="*",
        operation=READ,
        permission_type=ALLOW,
    )
    return create_acls.API, create_acls.CreateAclsRequest(creations=[creation])


def _delete_acls(name: str) -> Ask:
    wanted = delete_acls.DeleteAclsFilter(
        resource_type_filter=TOPIC_IN_ACL,
        resource_name_filter=name,
        pattern_type_filter=ANY_PATTERN,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    return delete_acls.API, delete_acls.DeleteAclsRequest(filters=[wanted])


def _check_partitions(talk: Conversation, names: Sequence[str]) -> None:
    for answer in talk.ask_all([_metadata(name) for name in names]):
        (topic,) = answer.topics
        if len(topic.partitions) != PARTITIONS + 1:
            raise WrongAnswer(f"{topic.name} has {len(topic.partitions)} partitions instead of {PARTITIONS + 1}")


def _api_versions_frame(cycle: int) -> bytes:
    from klamm.protocol.codec.frames import encode_frame
    from klamm.protocol.codec.requests import encode_request

    request = api_versions.ApiVersionsRequest(client_software_name=f"soak-{cycle}", client_software_version="1")
    return encode_frame(encode_request(api_versions.API, 3, 1, f"soak-{cycle}", request))
