"""Validates changed configs of one resource as the controller does, and plans the records that change them.

The order of the checks and the texts are those recorded from Apache Kafka 4.3. Configs of a broker are written even if
their values stay the same, because brokers reload the files that the values name (KAFKA-14136). A new minimum ISR
clears the eligible leader replicas, because they were determined under the old one (KIP-966).
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from klamm.controller.configs import (
    Changes,
    ResourceType,
    decode_node_id,
    in_hash_order,
    invalid_request,
    validate_client_metrics_configs,
    validate_group_configs,
    validate_own_configs,
    validate_topic_configs,
)
from klamm.controller.context import RequestContext
from klamm.controller.log_records import Record
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata_versions import FIRST_LEVEL_WITH_CORDONS, METADATA_VERSIONS
from klamm.controller.served_apis import release_of
from klamm.controller.transitions.topic_names import quoted, validate_topic_name
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.records.configs import ConfigRecord
from klamm.protocol.records.partitions import ClearElrRecord

MAX_CONFIGS_PER_RESOURCE: Final = 10_000
"""Brokers accept config names that Kafka does not define, but at most this many."""
MAX_RESOURCES: Final = 100_000
"""Most groups, client metrics subscriptions and brokers, together, that have configs. Other limits bound topics."""
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
CORDONED_LOG_DIRS: Final = "cordoned.log.dirs"
_NOT_A_SUBSET: Final = ApiError(
    ErrorCode.INVALID_CONFIG,
    # With two spaces, as in Kafka.
    f"When updating {CORDONED_LOG_DIRS} via controllers,  the new value must be a subset of the current configuration "
    "value.",
)
_TRIMMED: Final = "".join(map(chr, range(0x21)))
_LIST_SEPARATOR: Final = re.compile(r"[ \t\n\x0b\f\r]*,[ \t\n\x0b\f\r]*")
"""As Kafka splits lists."""


def plan_config_changes(
    image: MetadataImage,
    context: RequestContext,
    resource_type: int,
    resource_name: str,
    changes: Changes,
    *,
    replace_all: bool = False,
) -> list[Record] | ApiError:
    """The records that make the changes, in Kafka's order. With `replace_all` every config that is not named is
    removed."""
    current = image.config(resource_type, resource_name)
    dropped = [name for name in in_hash_order(current) if name not in changes] if replace_all else []
    written = [
        (name, changes[name])
        for name in changes
        if resource_type == ResourceType.BROKER or changes[name] != current.get(name)
    ] + [(name, None) for name in dropped]
    configs = dict(current)
    for name, value in written:
        if value is None:
            configs.pop(name, None)
        else:
            configs[name] = value
    refusal = (
        _refuse_min_insync_replicas(image, resource_type, resource_name, written)
        or _refuse_cordons(image, context, resource_type, current, written)
        or _validate(image, context, resource_type, resource_name, configs, changes)
        or _validate_growth(image, resource_type, resource_name, len(current), len(configs))
    )
    if refusal:
        return refusal
    return [
        ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
        for name, value in written
    ]


def clear_elr_records(image: MetadataImage, records: Iterable[Record]) -> list[Record]:
    """The ClearElrRecords that must follow `records`: eligible leader replicas are invalid under a new minimum ISR."""
    if not image.features.has_elr:
        return []
    return [
        ClearElrRecord(topic_name=record.resource_name if record.resource_type == ResourceType.TOPIC else "")
        for record in records
        if isinstance(record, ConfigRecord) and record.name == MIN_INSYNC_REPLICAS
    ]


def _refuse_min_insync_replicas(
    image: MetadataImage, resource_type: int, resource_name: str, written: Iterable[tuple[str, str | None]]
) -> ApiError | None:
    if resource_type != ResourceType.BROKER or not image.features.has_elr:
        return None
    values = [value for name, value in written if name == MIN_INSYNC_REPLICAS]
    if values and resource_name:
        text = "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
        return ApiError(ErrorCode.INVALID_CONFIG, text)
    if values and values[-1] is None:
        text = "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
        return ApiError(ErrorCode.INVALID_CONFIG, text)
    return None


def _refuse_cordons(
    image: MetadataImage,
    context: RequestContext,
    resource_type: int,
    current: Mapping[str, str],
    written: Iterable[tuple[str, str | None]],
) -> ApiError | None:
    """Why `cordoned.log.dirs` cannot be changed: records have no cordons yet, or the controller itself was asked, which
    does not know the broker's directories."""
    values = [value for name, value in written if name == CORDONED_LOG_DIRS]
    if resource_type != ResourceType.BROKER or not values:
        return None
    if image.features.metadata_version >= FIRST_LEVEL_WITH_CORDONS:
        new = (values[-1] or "").strip(_TRIMMED)
        present = _LIST_SEPARATOR.split(current.get(CORDONED_LOG_DIRS, "").strip(_TRIMMED))
        is_added = new and not set(_LIST_SEPARATOR.split(new)) <= set(present)
        return _NOT_A_SUBSET if is_added and context.requester.asked_controller_itself else None
    needs = f"it requires metadata.version >= {METADATA_VERSIONS[FIRST_LEVEL_WITH_CORDONS]}"
    text = f"The {CORDONED_LOG_DIRS} configuration value cannot be set because {needs}"
    return ApiError(ErrorCode.INVALID_CONFIG, text)


def _validate(
    image: MetadataImage,
    context: RequestContext,
    resource_type: int,
    resource_name: str,
    configs: Mapping[str, str],
    changes: Changes,
) -> ApiError | None:
    settings, broker_id = context.settings, context.requester.asked_broker_id
    release = release_of(context.served).name
    match resource_type:
        case ResourceType.TOPIC:
            if not resource_name:
                return invalid_request("Default topic resources are not allowed.")
            return (
                validate_topic_name(resource_name)
                or (validate_topic_configs(configs, image.configs, settings, broker_id, release) if configs else None)
                or _refuse_unknown_topic(image, resource_name)
            )
        case ResourceType.BROKER:
            return (_refuse_unknown_broker(image, context, resource_name) if resource_name else None) or (
                validate_own_configs(changes)
            )
        case ResourceType.CLIENT_METRICS:
            return validate_client_metrics_configs(resource_name, configs)
        case ResourceType.GROUP:
            return validate_group_configs(resource_name, configs, settings, broker_id, release)
        case _:
            raise ValueError(f"resource type {resource_type} has no configs in the log")


def _refuse_unknown_topic(image: MetadataImage, topic_name: str) -> ApiError | None:
    if topic_name in image.topics_by_name:
        return None
    return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic {quoted(topic_name)} does not exist.")


def _refuse_unknown_broker(image: MetadataImage, context: RequestContext, name: str) -> ApiError | None:
    broker_id = decode_node_id(name)
    if broker_id is None:
        return invalid_request("Unable to parse broker name as a base 10 number.")
    if broker_id < 0:
        return invalid_request("Invalid negative broker ID.")
    if broker_id in image.brokers or broker_id == context.cluster.controller_id:
        return None
    return ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {broker_id} found.")


def _validate_growth(
    image: MetadataImage, resource_type: int, resource_name: str, before: int, after: int
) -> ApiError | None:
    if after <= before:
        return None
    if after > MAX_CONFIGS_PER_RESOURCE:
        return ApiError(ErrorCode.POLICY_VIOLATION, f"A resource has at most {MAX_CONFIGS_PER_RESOURCE} configs.")
    is_new = before == 0 and resource_type != ResourceType.TOPIC
    # The resources are counted only if there are many entries at all, because counting takes a while.
    if is_new and len(image.configs) >= MAX_RESOURCES and _resources(image) >= MAX_RESOURCES:
        text = f"At most {MAX_RESOURCES} groups, client metrics subscriptions and brokers have configs."
        return ApiError(ErrorCode.POLICY_VIOLATION, text)
    return None


def _resources(image: MetadataImage) -> int:
    return sum(resource_type != ResourceType.TOPIC for resource_type, _ in image.configs)
