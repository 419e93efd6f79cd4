"""Metadata logs to read: as many records as are wanted, of a cluster in which topics are made and partitions change.

A topic is a thousand records: itself, 499 partitions, and 500 changes of them (a broker leaves their ISRs and comes
back). Each topic's batches are those of the first with other numbers in them, which is a hundred times as fast as
encoding them anew.
"""

import uuid
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from struct import Struct
from typing import Final

import google_crc32c

from bench.raw_client import Refused
from klamm.controller.log.data_dir import LOG_FOLDER
from klamm.protocol.record_batch import encode_batch
from klamm.protocol.records.brokers import BrokerEndpoint, BrokerRegistrationChangeRecord, RegisterBrokerRecord
from klamm.protocol.records.partitions import PartitionChangeRecord, PartitionRecord
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import Uuid

RECORDS_PER_TOPIC: Final = 1_000
BROKERS: Final = 10
PARTITIONS: Final = 499
_SEGMENT_BYTES: Final = 32 << 20
_START_MS: Final = 1_760_000_000_000
_TOPIC_ID: Final = bytes(range(100, 116))
_TOPIC_NAME: Final = "t-00000000"
_BASE_OFFSET, _CHECKSUM, _TIMES = Struct(">q"), Struct(">I"), Struct(">qq")
_CHECKSUM_AT, _CHECKED_FROM, _TIMES_AT = 17, 21, 27


def write_log(folder: Path, records: int, cluster: int = 0) -> int:
    """Write a data directory with so many records, a multiple of a thousand, besides those of its brokers; how many
    records it has in all."""
    if records % RECORDS_PER_TOPIC:
        raise Refused(f"{records} records are not so many topics of {RECORDS_PER_TOPIC}")
    log = folder / LOG_FOLDER
    log.mkdir(parents=True)
    cluster_id = f"bench-cluster-{cluster:08d}"
    (folder / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id={cluster_id}\n")
    brokers = _brokers()
    data = bytearray(brokers)
    offset, segment = 2 * BROKERS, 0
    for topic in range(records // RECORDS_PER_TOPIC):
        for batch, count in topic_batches(topic, offset, cluster):
            data += batch
            offset += count
        if len(data) >= _SEGMENT_BYTES:
            (log / f"{segment:020d}.log").write_bytes(data)
            data.clear()
            segment = offset
    if data:
        (log / f"{segment:020d}.log").write_bytes(data)
    return offset


def _brokers() -> bytes:
    records: list[RegisterBrokerRecord | BrokerRegistrationChangeRecord] = []
    for broker_id in range(1, BROKERS + 1):
        end_points = [BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=9_000 + broker_id)]
        identity = Uuid(uuid.UUID(int=broker_id).bytes)
        records += [
            RegisterBrokerRecord(
                broker_id=broker_id,
                incarnation_id=identity,
                broker_epoch=broker_id,
                end_points=end_points,
                rack=f"r{broker_id % 3}",
                log_dirs=[identity],
            ),
            BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_id, fenced=-1),
        ]
    return encode_batch(0, 1, _START_MS, records)


def topic_batches(topic: int, offset: int, cluster: int = 0) -> Iterator[tuple[bytes, int]]:
    """The batches of one more topic, from this offset on, each with its number of records."""
    for batch, count in _batches():
        yield _renumbered(batch, offset, cluster, topic), count
        offset += count


@cache
def _batches() -> list[tuple[bytes, int]]:
    topic_id, directory = Uuid(_TOPIC_ID), Uuid(uuid.UUID(int=1).bytes)
    rows = [[(number + step) % BROKERS + 1 for step in (0, 1, 3)] for number in range(PARTITIONS)]
    made = [
        PartitionRecord(
            partition_id=number,
            topic_id=topic_id,
            replicas=row,
            isr=row,
            leader=row[0],
            leader_epoch=0,
            partition_epoch=0,
            directories=[directory] * 3,
        )
        for number, row in enumerate(rows)
    ]
    topic = TopicRecord(name=_TOPIC_NAME, topic_id=topic_id)
    changes = [
        PartitionChangeRecord(partition_id=number, topic_id=topic_id, isr=isr)
        for shrink in (True, False)
        for number in range(250)
        for isr in (rows[number][:2] if shrink else rows[number],)
    ]
    return [
        (encode_batch(0, 1, _START_MS, [topic, *made]), PARTITIONS + 1),
        *((encode_batch(0, 1, _START_MS, changes[begin : begin + 50]), 50) for begin in range(0, len(changes), 50)),
    ]


def _renumbered(batch: bytes, base_offset: int, cluster: int, topic: int) -> bytes:
    own_id = uuid.UUID(int=(cluster + 1) << 64 | topic + 1).bytes
    name = f"t-{topic:08d}"
    data = bytearray(batch.replace(_TOPIC_ID, own_id).replace(_TOPIC_NAME.encode(), name.encode()))
    _BASE_OFFSET.pack_into(data, 0, base_offset)
    _TIMES.pack_into(data, _TIMES_AT, _START_MS + base_offset, _START_MS + base_offset)
    _CHECKSUM.pack_into(data, _CHECKSUM_AT, google_crc32c.value(bytes(data[_CHECKED_FROM:])))
    return bytes(data)
