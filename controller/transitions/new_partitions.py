"""The PartitionRecords of new partitions, few one by one, many as columns."""

from collections.abc import Mapping, Sequence

import numpy as np

from klamm.controller.log_records import Record
from klamm.controller.metadata.broker import MIGRATING_DIRECTORY, BrokerState
from klamm.controller.metadata.columns import Ints
from klamm.controller.metadata.directories import has_directories
from klamm.protocol.columns import Columns
from klamm.protocol.records.partitions import PartitionRecord
from klamm.protocol.uuid import Uuid

FEW_PARTITIONS = 8
"""Up to this many partitions, single records are made and encoded faster than columns (measured: equal at about 12)."""


def new_partition_records(
    brokers: Mapping[int, BrokerState], topic_id: Uuid, first_partition: int, replicas: Ints
) -> Sequence[Record]:
    """The records of new partitions: the live replicas are in sync, and the first of them leads.

    Placeholders (ids below 0) are not live. Their directory is UNASSIGNED, Kafka's id for a directory not chosen yet.
    """
    if len(replicas) <= FEW_PARTITIONS:
        return _one_by_one(brokers, topic_id, first_partition, replicas)
    ids = np.array(sorted(brokers), dtype=np.int32)
    # The position behind the last broker stands for every placeholder.
    at = np.where(replicas < 0, len(ids), np.searchsorted(ids, replicas))
    alive = np.array([*(brokers[broker_id].live for broker_id in ids.tolist()), False])[at]
    if not (alive == alive[0]).all():
        return _one_by_one(brokers, topic_id, first_partition, replicas)
    known = b"".join([*(brokers[broker_id].default_directory for broker_id in ids.tolist()), MIGRATING_DIRECTORY])
    isr = replicas[:, alive[0]]
    values: dict[str, object] = {
        "partition_id": np.arange(first_partition, first_partition + len(replicas), dtype=np.int32),
        "topic_id": topic_id,
        "replicas": replicas,
        "isr": isr,
        "leader": isr[:, 0],
        "leader_epoch": 0,
        "partition_epoch": 0,
    }
    if any(known):
        values["directories"] = np.frombuffer(known, dtype=np.uint8).reshape(-1, 16)[at]
    return [Columns(PartitionRecord, len(replicas), values)]


def _one_by_one(
    brokers: Mapping[int, BrokerState], topic_id: Uuid, first_partition: int, replicas: Ints
) -> list[Record]:
    records: list[Record] = []
    for position, row in enumerate(replicas.tolist()):
        isr = [replica for replica in row if replica >= 0 and brokers[replica].live]
        directories = [brokers[one].default_directory if one >= 0 else MIGRATING_DIRECTORY for one in row]
        records.append(
            PartitionRecord(
                partition_id=first_partition + position,
                topic_id=topic_id,
                replicas=row,
                isr=isr,
                leader=isr[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=directories if has_directories(directories) else [],
            )
        )
    return records
