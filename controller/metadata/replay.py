"""Replay: the one way in which the image changes. Start-up, tests and live requests all come through here.

`replay(image, records, first_offset)` applies one batch. Runs of columns, as handlers make them and as the log gives
them back, are applied as columns; the same records one by one give the same image (a property test holds both to that).
A record that cannot be applied raises ReplayError: the log must never hold what cannot be replayed, so that is fatal.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from klamm.controller.authorizer import Acl
from klamm.controller.metadata.broker import BrokerState, EndPoint
from klamm.controller.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage, Topic, collision_key
from klamm.controller.metadata.replay_partitions import (
    ReplayError,
    find_topic,
    replay_change,
    replay_change_run,
    replay_new_partitions,
    replay_new_run,
)
from klamm.controller.outcome import Records
from klamm.protocol.columns import Columns
from klamm.protocol.fields import Message
from klamm.protocol.records.brokers import (
    BrokerRegistrationChangeRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from klamm.protocol.records.cluster import FeatureLevelRecord, NoOpRecord, RegisterControllerRecord
from klamm.protocol.records.configs import ConfigRecord
from klamm.protocol.records.partitions import ClearElrRecord, PartitionChangeRecord, PartitionRecord
from klamm.protocol.records.security import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from klamm.protocol.records.topics import RemoveTopicRecord, TopicRecord

__all__ = ["ReplayError", "replay"]


def replay(image: MetadataImage, records: Records, first_offset: int) -> None:
    """Apply one batch of records whose first one stands at `first_offset`; raises ReplayError."""
    offset = first_offset
    new: list[PartitionRecord] = []
    for record in records:
        if isinstance(record, PartitionRecord):
            find_topic(image, record.topic_id)
            new.append(record)
            offset += 1
            continue
        kind = type(record)
        if new and kind not in _BESIDE_NEW_PARTITIONS:
            replay_new_partitions(image, new)
            new = []
        if kind in _REPLAY:
            _REPLAY[kind](image, record)
            offset += 1
        elif isinstance(record, Columns):
            _REPLAY_RUN[record.message_class](image, record)
            offset += len(record)
        else:
            raise ReplayError(f"{kind.__name__} is not a record that this version can replay")
    if new:
        replay_new_partitions(image, new)
    image.next_offset = offset


def _register_broker(image: MetadataImage, record: RegisterBrokerRecord) -> None:
    image.set_broker(
        BrokerState(
            broker_id=record.broker_id,
            broker_epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            rack=record.rack,
            end_points=tuple(EndPoint(e.name, e.host, e.port, e.security_protocol) for e in record.end_points),
            features=tuple((f.name, f.min_supported_version, f.max_supported_version) for f in record.features),
            log_dirs=tuple(record.log_dirs),
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            cordoned_log_dirs=None if record.cordoned_log_dirs is None else tuple(record.cordoned_log_dirs),
        )
    )


def _change_broker(image: MetadataImage, record: BrokerRegistrationChangeRecord) -> None:
    broker = image.brokers.get(record.broker_id)
    if broker is None or broker.broker_epoch != record.broker_epoch:
        raise ReplayError(f"no registration of broker {record.broker_id} with epoch {record.broker_epoch} to change")
    # In this record 1 sets, -1 clears, 0 leaves as it is.
    image.set_broker(
        replace(
            broker,
            log_dirs=tuple(record.log_dirs) or broker.log_dirs,
            fenced=record.fenced > 0 if record.fenced else broker.fenced,
            in_controlled_shutdown=(
                record.in_controlled_shutdown > 0 if record.in_controlled_shutdown else broker.in_controlled_shutdown
            ),
            cordoned_log_dirs=(
                broker.cordoned_log_dirs if record.cordoned_log_dirs is None else tuple(record.cordoned_log_dirs)
            ),
        )
    )


def _unregister_broker(image: MetadataImage, record: UnregisterBrokerRecord) -> None:
    if image.brokers.pop(record.broker_id, None) is None:
        raise ReplayError(f"no broker {record.broker_id} to unregister")
    image.liveness_changes += 1
    image.catch_up_changes += 1


def _add_topic(image: MetadataImage, record: TopicRecord) -> None:
    if record.name in image.topics_by_name or record.topic_id in image.topics_by_id:
        raise ReplayError(f"topic {record.name} with id {record.topic_id} exists already")
    topic = Topic(record.name, record.topic_id, image.next_topic_row)
    image.next_topic_row += 1
    image.topics_by_name[topic.name] = image.topics_by_id[topic.topic_id] = image.topics_by_row[topic.row] = topic
    if key := collision_key(topic.name):
        image.collision_keys.setdefault(key, set()).add(topic.name)


def _remove_topic(image: MetadataImage, record: RemoveTopicRecord) -> None:
    topic = image.topics_by_id.pop(record.topic_id, None)
    if topic is None:
        raise ReplayError(f"no topic with id {record.topic_id} to remove")
    del image.topics_by_name[topic.name]
    del image.topics_by_row[topic.row]
    if key := collision_key(topic.name):
        image.collision_keys[key].discard(topic.name)
        if not image.collision_keys[key]:
            del image.collision_keys[key]
    image.configs.pop((TOPIC_RESOURCE, topic.name), None)
    for owned, table in image.partitions.topic_ranges(topic.row):
        image.usage.remove(topic.name, table.replicas[owned.rows])
    image.partitions.remove_topic(topic.row)
    image.room_changes += 1


def _set_config(image: MetadataImage, record: ConfigRecord) -> None:
    resource = (record.resource_type, record.resource_name)
    # Another dictionary, not the same one changed: a snapshot that is being written may still have it.
    configs = {**image.configs.get(resource, {}), record.name: record.value}
    image.configs[resource] = {name: value for name, value in configs.items() if value is not None}
    if not image.configs[resource]:
        del image.configs[resource]
    if record.resource_type == BROKER_RESOURCE:
        image.room_changes += 1


def _clear_elr(image: MetadataImage, record: ClearElrRecord) -> None:
    """The minimum ISR of a topic, or of all, has changed: what was kept under the old one counts no longer.

    A partition that loses something by it is another one for its leader: its epoch grows, as it does on real brokers.
    """
    partitions = image.partitions
    cleared = list(partitions.elr)
    if record.topic_name:
        topic = image.topics_by_name.get(record.topic_name)
        if topic is None:
            raise ReplayError(f"no topic {record.topic_name} to clear eligible leader replicas of")
        cleared = [key for key in cleared if key.topic_row == topic.row]
    for key in cleared:
        table, row = partitions.locate(*key)
        table.partition_epoch[row] += 1
        table.aside[row] = key in partitions.reassigning
        del partitions.elr[key]


def _set_feature(image: MetadataImage, record: FeatureLevelRecord) -> None:
    if record.feature_level:
        image.features[record.name] = record.feature_level
    else:
        image.features.pop(record.name, None)


def _add_acl(image: MetadataImage, record: AccessControlEntryRecord) -> None:
    acl = Acl(
        record.resource_type,
        record.resource_name,
        record.pattern_type,
        record.principal,
        record.host,
        record.operation,
        record.permission_type,
    )
    try:
        image.acls.add(record.id, acl)
    except KeyError:
        raise ReplayError(f"an access control entry with id {record.id} exists already") from None


def _remove_acl(image: MetadataImage, record: RemoveAccessControlEntryRecord) -> None:
    try:
        image.acls.remove(record.id)
    except KeyError:
        raise ReplayError(f"no access control entry with id {record.id} to remove") from None


def _give_producer_ids(image: MetadataImage, record: ProducerIdsRecord) -> None:
    if record.next_producer_id <= image.next_producer_id:
        raise ReplayError(f"producer ids below {image.next_producer_id} were given already")
    image.next_producer_id = record.next_producer_id


def _nothing(image: MetadataImage, record: Message) -> None:
    """Records that move the offset and nothing else: a real controller that used this log leaves its registration."""


_REPLAY: dict[type[Message], Callable[[MetadataImage, Any], None]] = {
    RegisterBrokerRecord: _register_broker,
    BrokerRegistrationChangeRecord: _change_broker,
    UnregisterBrokerRecord: _unregister_broker,
    TopicRecord: _add_topic,
    RemoveTopicRecord: _remove_topic,
    PartitionChangeRecord: replay_change,
    ConfigRecord: _set_config,
    ClearElrRecord: _clear_elr,
    FeatureLevelRecord: _set_feature,
    AccessControlEntryRecord: _add_acl,
    RemoveAccessControlEntryRecord: _remove_acl,
    ProducerIdsRecord: _give_producer_ids,
    NoOpRecord: _nothing,
    RegisterControllerRecord: _nothing,
}
_REPLAY_RUN: dict[type[Message], Callable[[MetadataImage, Columns[Any]], None]] = {
    PartitionRecord: replay_new_run,
    PartitionChangeRecord: replay_change_run,
}
_BESIDE_NEW_PARTITIONS = frozenset({TopicRecord, ConfigRecord})
"""What may be applied before partitions that stand before it, so that those of small topics are appended together."""
