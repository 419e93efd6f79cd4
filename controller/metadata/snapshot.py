"""The image as the records that rebuild it: what a snapshot of the metadata log holds.

The order is that of Kafka's own image writer: features (metadata.version first, or Kafka's readers cannot tell how to
read the rest), brokers, topics, each before its partitions, configs, producer ids, ACLs. Within a kind the image's own
order is kept, so that answers have the same order after a start from a snapshot. What one record cannot carry, counters
that are cues for work alone, is not part of it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from klamm.controller.authorizer import Acl
from klamm.controller.metadata.broker import BrokerState
from klamm.controller.metadata.columns import PADDING, ColumnTable
from klamm.controller.metadata.image import MetadataImage, Topic
from klamm.controller.metadata.partition_table import PartitionTable, RowRange
from klamm.protocol.columns import Columns, Ragged
from klamm.protocol.fields import Message
from klamm.protocol.records.brokers import BrokerEndpoint, BrokerFeature, ProducerIdsRecord, RegisterBrokerRecord
from klamm.protocol.records.cluster import FeatureLevelRecord
from klamm.protocol.records.configs import ConfigRecord
from klamm.protocol.records.partitions import PartitionRecord
from klamm.protocol.records.security import AccessControlEntryRecord
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import Uuid

BATCH_BYTES: Final = 1 << 20
"""About what a batch has; Kafka never writes one of more than 8 MiB, and a reader holds it as a whole."""
BATCH_RECORDS_ALONE: Final = 500
"""No more of those that are no columns: some 5 ms of work, after which whoever writes the snapshot may rest."""
SnapshotRecord: TypeAlias = Message | Columns[PartitionRecord]
_METADATA_VERSION: Final = "metadata.version"
_FEW_PARTITIONS: Final = 40  # below, one by one is as fast as columns, and gives the same bytes
_RECORD_BYTES: Final = 64  # around the parts of a record that are counted
_REPLICA_BYTES: Final = 28  # of a partition: in the replicas, the ISR and the directories


@dataclass(frozen=True, slots=True)
class ImageCopy:
    """The image at one offset, as it stays while the image goes on changing. Partitions are columns here, too."""

    features: dict[str, int]
    brokers: list[BrokerState]
    topics: list[Topic]
    """In the order of their creation."""
    partitions: PartitionTable
    configs: dict[tuple[int, str], dict[str, str]]
    """By resource type and name."""
    acls: dict[Uuid, Acl]
    next_producer_id: int


def copy_image(image: MetadataImage, room: PartitionTable | None = None) -> ImageCopy:
    """All that records can say of the image. With `room` made before (`PartitionTable.room`) it takes about 20 ms for a
    million partitions."""
    return ImageCopy(
        features=dict(image.features),
        brokers=list(image.brokers.values()),
        topics=list(image.topics_by_row.values()),
        partitions=image.partitions.copy(room),
        configs=image.configs.copy(),
        acls=image.acls.by_id.copy(),
        next_producer_id=image.next_producer_id,
    )


def snapshot_batches(copy: ImageCopy) -> Iterator[list[SnapshotRecord]]:
    """The records in batches of about `BATCH_BYTES`; made one by one, as they are asked for."""
    batch: list[SnapshotRecord] = []
    size = 0
    for record in _records(copy):
        batch.append(record)
        size += _rough_size(record)
        if size >= BATCH_BYTES or len(batch) >= BATCH_RECORDS_ALONE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _records(copy: ImageCopy) -> Iterator[SnapshotRecord]:
    for name in sorted(copy.features, key=lambda name: name != _METADATA_VERSION):
        yield FeatureLevelRecord(name=name, feature_level=copy.features[name])
    for broker in copy.brokers:
        yield _registration(broker)
    directories = np.frombuffer(b"".join(copy.partitions.directory_ids.ids), dtype=np.uint8).reshape(-1, 16)
    for topic in copy.topics:
        yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
        for owned, table in copy.partitions.topic_ranges(topic.row):
            yield from _partitions(copy.partitions, topic.topic_id, owned, table, directories)
    for (resource_type, resource_name), configs in copy.configs.items():
        for name, value in configs.items():
            yield ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
    if copy.next_producer_id:
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=copy.next_producer_id)
    for acl_id, acl in copy.acls.items():
        yield _acl_record(acl_id, acl)


def _registration(broker: BrokerState) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        incarnation_id=broker.incarnation_id,
        rack=broker.rack,
        end_points=[
            BrokerEndpoint(name=at.name, host=at.host, port=at.port, security_protocol=at.security_protocol)
            for at in broker.end_points
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=lowest, max_supported_version=highest)
            for name, lowest, highest in broker.features
        ],
        log_dirs=broker.log_dirs,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        cordoned_log_dirs=broker.cordoned_log_dirs,
    )


def _acl_record(acl_id: Uuid, acl: Acl) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )


def _partitions(
    partitions: PartitionTable, topic_id: Uuid, owned: RowRange, table: ColumnTable, directories: NDArray[np.uint8]
) -> Iterator[SnapshotRecord]:
    """The partitions of a range in order: stretches of columns, and one by one those that have something aside."""
    first, end = owned.rows.start, owned.rows.stop
    at_once = BATCH_BYTES // (_RECORD_BYTES + _REPLICA_BYTES * table.width) + 1
    for begin, after in pairwise((first - 1, *_aside_rows(table, first, end), end)):
        for row in range(begin + 1, after, at_once):
            yield from _stretch(partitions, topic_id, table, slice(row, min(row + at_once, after)), directories)
        if after < end:
            yield _partition_record(partitions, topic_id, table, after)


def _aside_rows(table: ColumnTable, first: int, end: int) -> list[int]:
    found: list[int] = (np.flatnonzero(table.aside[first:end]) + first).tolist()
    return found


def _stretch(
    partitions: PartitionTable, topic_id: Uuid, table: ColumnTable, rows: slice, directories: NDArray[np.uint8]
) -> Iterator[SnapshotRecord]:
    count = rows.stop - rows.start
    if count < _FEW_PARTITIONS:
        for row in range(rows.start, rows.stop):
            yield _partition_record(partitions, topic_id, table, row)
        return
    numbers = table.directories[rows]
    replica_count = table.replica_count[rows]
    yield Columns(
        PartitionRecord,
        count,
        {
            "partition_id": table.partition_index[rows],
            "topic_id": topic_id,
            "replicas": Ragged(table.replicas[rows], replica_count).as_column(),
            "isr": Ragged(table.isr[rows], table.isr_count[rows]).as_column(),
            "leader": table.leader[rows],
            "leader_recovery_state": table.leader_recovery_state[rows],
            "leader_epoch": table.leader_epoch[rows],
            "partition_epoch": table.partition_epoch[rows],
            # Beyond a row's replicas stands padding, which is no number of a directory.
            "directories": Ragged(directories[np.where(numbers == PADDING, 0, numbers)], replica_count).as_column(),
        },
    )


def _partition_record(partitions: PartitionTable, topic_id: Uuid, table: ColumnTable, row: int) -> PartitionRecord:
    partition = partitions.read_row(table, row)
    return PartitionRecord(
        partition_id=int(table.partition_index[row]),
        topic_id=topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing_replicas,
        adding_replicas=partition.adding_replicas,
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories,
        # None says the same as an empty list, and is what Kafka writes for partitions that never had any.
        eligible_leader_replicas=partition.eligible_leader_replicas or None,
        last_known_elr=partition.last_known_elr or None,
    )


def _rough_size(record: SnapshotRecord) -> int:
    """Bytes, off by no more than the width of characters."""
    if isinstance(record, Columns):
        replicas = record.values["replicas"]
        widest = (replicas.rows if isinstance(replicas, Ragged) else replicas).shape[1]
        return len(record) * (_RECORD_BYTES + _REPLICA_BYTES * int(widest))
    if isinstance(record, ConfigRecord):
        return _RECORD_BYTES + len(record.resource_name) + len(record.name) + len(record.value or "")
    if isinstance(record, PartitionRecord):
        return _RECORD_BYTES + _REPLICA_BYTES * len(record.replicas)
    return 4 * _RECORD_BYTES
