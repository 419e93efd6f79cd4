"""Reads a cluster's metadata by its admin APIs, for clusters whose controllers cannot be reached.

What the APIs show becomes the records that a controller would have written: features, brokers, topics with their
partitions, configs, ACLs and quotas. A part that the cluster does not show, because it lacks the API or the client
lacks the right, is left out and named.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from klamm.admin.client import AdminClient
from klamm.admin.errors import NotSupportedByBroker, RequestFailed, decode_error
from klamm.admin.partition_types import TopicPartition
from klamm.admin.types import (
    Broker,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    ResourceConfigs,
    TopicDescription,
)
from klamm.controller.transitions.features import bootstrap_levels
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.messages.configs import describe_client_quotas
from klamm.protocol.messages.security import describe_acls
from klamm.protocol.record_batch import encode_batch
from klamm.protocol.record_versions import LATEST_METADATA_VERSION
from klamm.protocol.records.brokers import BrokerEndpoint, RegisterBrokerRecord
from klamm.protocol.records.cluster import FeatureLevelRecord
from klamm.protocol.records.configs import ClientQuotaRecord, ConfigRecord, EntityData
from klamm.protocol.records.partitions import PartitionRecord
from klamm.protocol.records.security import AccessControlEntryRecord
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import ZERO_UUID, Uuid
from klamm.twin.static_configs import ShownConfigs

ANY: Final = 1
"""In filters of DescribeAcls: any resource type, pattern, operation and permission."""
RESOURCES_IN_A_REQUEST: Final = 500
RECORDS_IN_A_BATCH: Final = 5_000
EPOCH: Final = 1
_SECURITY_PROTOCOL_PLAINTEXT: Final = 0


@dataclass(slots=True)
class Cloned:
    """What was read."""

    cluster_id: str
    records: list[Message] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """Parts that could not be read, one clause each."""
    sizes: dict[TopicPartition, int] = field(default_factory=dict)
    """The bytes of the largest replica of each partition."""
    static: ShownConfigs = field(default_factory=ShownConfigs)
    """The configs in the brokers' files, which no record can hold: the controller reads some of them from files
    alone."""


async def clone(admin: AdminClient) -> Cloned:
    """Read the cluster. Raises AdminError if brokers or topics cannot be read."""
    described = await admin.describe_cluster()
    fenced = await _fenced(admin)
    topics = [one for one in (await admin.metadata()).topics if one.topic_name is not None and one.error is None]
    cloned = Cloned(described.cluster_id)
    add = cloned.records.extend
    add(
        FeatureLevelRecord(name=name, feature_level=level)
        for name, level in bootstrap_levels(LATEST_METADATA_VERSION).items()
    )
    known = {one.broker_id: one for one in (*described.brokers, *fenced)}
    add(_broker_records(known[broker_id], number) for number, broker_id in enumerate(sorted(known), 1))
    moving = {
        one.partition: one for one in await _part(cloned, "reassignments", admin.list_partition_reassignments, ())
    }
    for topic in topics:
        add(_topic_records(topic, moving))
    live = [broker.broker_id for broker in described.brokers]
    await _configs(admin, cloned, [one.topic_name or "" for one in topics], live)
    add(await _part(cloned, "ACLs", lambda: _acls(admin), ()))
    add(await _part(cloned, "client quotas", lambda: _quotas(admin), ()))
    for log_dir in await _part(cloned, "sizes of replicas", admin.describe_log_dirs, ()):
        for replica in log_dir.replicas:
            cloned.sizes[replica.partition] = max(cloned.sizes.get(replica.partition, 0), replica.size_bytes or 0)
    return cloned


async def _part(cloned: Cloned, what: str, read: Callable[[], Awaitable[Any]], otherwise: Any) -> Any:
    """What `read` returns; if the cluster refuses it, that is noted, and the result is `otherwise`."""
    try:
        return await read()
    except (NotSupportedByBroker, RequestFailed) as error:
        cloned.missing.append(str(error) if str(error).startswith(what) else f"{what}: {error}")
        return otherwise


async def _fenced(admin: AdminClient) -> Sequence[Broker]:
    """The fenced brokers, which clusters before 4.0 do not show."""
    try:
        shown = await admin.describe_cluster(include_fenced_brokers=True)
    except NotSupportedByBroker:
        return ()
    return [broker for broker in shown.brokers if broker.fenced]


def _broker_records(broker: Broker, number: int) -> RegisterBrokerRecord:
    """A registration that says how the broker is now."""
    end_point = BrokerEndpoint(
        name="PLAINTEXT", host=broker.host, port=max(broker.port, 0), security_protocol=_SECURITY_PROTOCOL_PLAINTEXT
    )
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        incarnation_id=Uuid(b"clone" + bytes(7) + broker.broker_id.to_bytes(4, "big")),
        broker_epoch=number,
        end_points=[end_point],
        rack=broker.rack,
        fenced=broker.fenced,
        log_dirs=[Uuid(b"dir" + bytes(9) + broker.broker_id.to_bytes(4, "big"))],
    )


def _topic_records(topic: TopicDescription, moving: Any) -> Iterator[Message]:
    topic_id = topic.topic_id if topic.topic_id is not None else ZERO_UUID
    yield TopicRecord(name=topic.topic_name or "", topic_id=topic_id)
    for partition in topic.partitions:
        move = moving.get(TopicPartition(topic.topic_name or "", partition.partition_index))
        yield PartitionRecord(
            partition_id=partition.partition_index,
            topic_id=topic_id,
            replicas=partition.replicas,
            isr=partition.isr,
            leader=-1 if partition.leader is None else partition.leader,
            leader_epoch=max(partition.leader_epoch or 0, 0),
            partition_epoch=max(partition.leader_epoch or 0, 0),
            adding_replicas=() if move is None else move.adding_replicas,
            removing_replicas=() if move is None else move.removing_replicas,
            directories=[_directory(broker_id) for broker_id in partition.replicas],
        )


def _directory(broker_id: int) -> Uuid:
    return ZERO_UUID if broker_id < 0 else Uuid(b"dir" + bytes(9) + broker_id.to_bytes(4, "big"))


async def _configs(admin: AdminClient, cloned: Cloned, topic_names: Sequence[str], broker_ids: Sequence[int]) -> None:
    """The configs that are set for topics, for brokers, and for all brokers. Those of files become no records."""
    brokers = [ConfigResource.broker(), *map(ConfigResource.broker, broker_ids)]
    await _configs_of(admin, cloned, brokers, include_synonyms=True)
    await _configs_of(admin, cloned, [*map(ConfigResource.topic, topic_names)], include_synonyms=False)


async def _configs_of(
    admin: AdminClient, cloned: Cloned, wanted: Sequence[ConfigResource], *, include_synonyms: bool
) -> None:
    for first in range(0, len(wanted), RESOURCES_IN_A_REQUEST):
        piece = wanted[first : first + RESOURCES_IN_A_REQUEST]
        read = partial(admin.describe_configs, piece, include_synonyms=include_synonyms)
        found: Sequence[ResourceConfigs] = await _part(cloned, "configs", read, ())
        for one in found:
            if one.error is not None:
                cloned.missing.append(f"configs of {one.resource}: {one.error.code.name}")
            cloned.records.extend(
                ConfigRecord(
                    resource_type=one.resource.type, resource_name=one.resource.name, name=name, value=entry.value
                )
                for name, entry in one.configs.items()
                if entry.source is _source_of(one.resource) and entry.value is not None
            )
            if one.error is None and one.resource.type is ConfigResourceType.BROKER and one.resource.name:
                cloned.static.add(int(one.resource.name), one.configs)


def _source_of(resource: ConfigResource) -> ConfigSource:
    """The source of values that are set for this resource itself."""
    if resource.type is ConfigResourceType.TOPIC:
        return ConfigSource.DYNAMIC_TOPIC_CONFIG
    return ConfigSource.DYNAMIC_BROKER_CONFIG if resource.name else ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG


async def _acls(admin: AdminClient) -> list[Message]:
    request = describe_acls.DescribeAclsRequest(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    answer = await admin._request(describe_acls.API, request)
    if answer.error_code == ErrorCode.SECURITY_DISABLED:
        return []
    _refuse_error("ACLs", answer)
    entries = [(resource, acl) for resource in answer.resources for acl in resource.acls]
    return [
        AccessControlEntryRecord(
            id=Uuid(b"acl" + bytes(9) + number.to_bytes(4, "big")),
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            pattern_type=resource.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission_type,
        )
        for number, (resource, acl) in enumerate(entries, 1)
    ]


async def _quotas(admin: AdminClient) -> list[Message]:
    answer = await admin._request(describe_client_quotas.API, describe_client_quotas.DescribeClientQuotasRequest())
    _refuse_error("client quotas", answer)
    return [
        ClientQuotaRecord(
            entity=[EntityData(entity_type=one.entity_type, entity_name=one.entity_name) for one in entry.entity],
            key=value.key,
            value=value.value,
        )
        for entry in answer.entries or ()
        for value in entry.values
    ]


def _refuse_error(what: str, answer: Any) -> None:
    error = decode_error(answer.error_code, answer.error_message)
    if error is not None:
        raise RequestFailed(what, error)


def log_bytes(records: Sequence[Message], timestamp_ms: int, first: bytes) -> bytes:
    """A log with these records behind its first batch, which has one record."""
    pieces, offset = [first], 1
    for start in range(0, len(records), RECORDS_IN_A_BATCH):
        piece = records[start : start + RECORDS_IN_A_BATCH]
        pieces.append(encode_batch(offset, EPOCH, timestamp_ms, piece))
        offset += len(piece)
    return b"".join(pieces)
