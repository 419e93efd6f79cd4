"""Creates and deletes a topic, and reads the records of one, for tests: without a client library, and without a
consumer's groups and positions. Used by `klamm.Cluster` and by the control interface.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import trio

from klamm.admin.connection import Connection, negotiated
from klamm.admin.decoding import decode_created_topic, decode_topic_result, encode_deletion, encode_new_topic
from klamm.admin.streams import ConnectionLost
from klamm.admin.types import NewTopic
from klamm.broker.data.record_batches import ProducedBatch
from klamm.broker.data.record_contents import UnreadableRecords, decode_records, split_batches
from klamm.broker.data.record_file import RecordFileError
from klamm.broker.data.replicated_log import ReplicatedLog
from klamm.console.shown import shown
from klamm.control.recorded import IsolationLevel, Record
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.topics import create_topics, delete_topics
from klamm.server.recent_requests import CONTROL_CLIENT_ID
from klamm.server.server import Server

CHANGE_SECONDS: Final = 30.0
"""The longest that a creation or a deletion may take."""
_MAX_ANSWER_BYTES: Final = 1 << 20
PAGE_BYTES: Final = 1 << 20
"""A page ends with the record that makes its keys, values and headers this large."""
PAGE_RECORDS: Final = 5_000
MAX_BATCH_BYTES: Final = 32 << 20
"""The most bytes of one batch, uncompressed."""
_READ_BYTES: Final = 1 << 20


class TopicError(Exception):
    """The topic cannot be created or read. The text is one clause for users."""


class NoSuchTopic(TopicError):
    """There is no such topic or partition."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some records of a topic, and where the next page begins; None: there are no more."""

    records: list[Record]
    next_partition: int | None = None
    next_offset: int = 0


async def create_topic(
    server: Server,
    name: str,
    num_partitions: int | None = None,
    replication_factor: int | None = None,
    configs: Mapping[str, str] | None = None,
    replica_assignments: Mapping[int, Sequence[int]] | None = None,
) -> None:
    """Create a topic by the cluster's own request to a broker that is up, so that all rules but those about principals
    apply, whatever its listeners demand. None: the broker's default. Raises TopicError."""
    topic = NewTopic(
        name,
        -1 if num_partitions is None else num_partitions,
        -1 if replication_factor is None else replication_factor,
        dict(configs or {}),
        dict(replica_assignments or {}),
    )
    api = create_topics.API
    body = create_topics.CreateTopicsRequest(
        topics=[encode_new_topic(topic)], timeout_ms=int(CHANGE_SECONDS * 1000), validate_only=False
    )
    async with _connection(server, f"topic {shown(name)} was not created") as connection:
        answer = await connection.exchange(api, connection.version_of(api), body)
    for created in map(decode_created_topic, answer.topics):
        if created.error is not None:
            raise TopicError(f"{created.error.code.name}: {created.error.message or 'no message'}")


async def delete_topic(server: Server, name: str) -> None:
    """Delete a topic in the same way. Raises NoSuchTopic and TopicError."""
    api = delete_topics.API
    async with _connection(server, f"topic {shown(name)} was not deleted") as connection:
        version = connection.version_of(api)
        answer = await connection.exchange(api, version, encode_deletion((name,), version, int(CHANGE_SECONDS * 1000)))
    for one in answer.responses:
        error = decode_topic_result(one.name, one.topic_id, one.error_code, one.error_message).error
        if error is not None and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise NoSuchTopic(f"there is no topic {shown(name)}")
        if error is not None:
            raise TopicError(f"{error.code.name}: {error.message or 'no message'}")


@asynccontextmanager
async def _connection(server: Server, failure: str) -> AsyncIterator[Connection]:
    """A connection to a broker that is up. Not over a listener: each may demand TLS, SASL, or a principal with rights.
    Raises TopicError, which begins with `failure`, if the block takes too long or the connection is lost."""
    up = [broker_id for broker_id, broker in sorted(server.brokers.by_id.items()) if broker.is_up]
    if not up:
        raise TopicError(f"{failure}: no broker is up")
    try:
        with trio.fail_after(CHANGE_SECONDS):
            connection = await negotiated(
                server.open_own_stream(up[0]), server.advertised(up[0]), CONTROL_CLIENT_ID, _MAX_ANSWER_BYTES
            )
            try:
                yield connection
            finally:
                with trio.CancelScope(shield=True):
                    await connection.aclose()
    except (ConnectionLost, OSError) as error:
        raise TopicError(f"{failure}: {error}") from error
    except trio.TooSlowError:
        raise TopicError(f"{failure} within {CHANGE_SECONDS:g} s") from None


def read_page(
    server: Server,
    topic_name: str,
    partition: int | None = None,
    *,
    isolation_level: IsolationLevel = "read_uncommitted",
    from_partition: int = 0,
    from_offset: int = 0,
) -> Page:
    """The records from an offset of a partition on, in the order of partitions and offsets; with `partition` only those
    of this one.

    `read_uncommitted` gives all records of the leader's log, also those that are not replicated yet; `read_committed`
    those that a consumer with that isolation level gets. Raises NoSuchTopic, and TopicError for records that cannot be
    read.
    """
    topic = server.image.topics_by_name.get(topic_name)
    if topic is None:
        raise NoSuchTopic(f"there is no topic {shown(topic_name)}")
    count = server.image.partitions.partition_count(topic.row)
    if partition is not None and not 0 <= partition < count:
        raise NoSuchTopic(f"topic {shown(topic_name)} has no partition {partition}: it has {count}")
    logs = server.brokers.data.partitions_of(topic.topic_id)
    records: list[Record] = []
    size_bytes = 0
    for index in sorted(logs):
        if index < from_partition or partition not in (None, index):
            continue
        offset = from_offset if index == from_partition else 0
        try:
            for record in _records_of(logs[index], index, offset, server.now_ms(), isolation_level):
                if size_bytes >= PAGE_BYTES or len(records) >= PAGE_RECORDS:
                    return Page(records, index, record.offset)
                records.append(record)
                size_bytes += record.size_bytes
        except (UnreadableRecords, RecordFileError) as error:
            raise TopicError(f"{topic_name}-{index}: {error}") from None
    return Page(records)


def _records_of(
    found: ReplicatedLog, index: int, offset: int, now_ms: int, isolation_level: IsolationLevel
) -> Iterator[Record]:
    log, committed = found.log, isolation_level == "read_committed"
    end = found.last_stable_offset(found.high_watermark(now_ms)) if committed else log.log_end_offset
    aborted = found.transactions.aborted_between(offset, end) if committed else ()

    def is_aborted(batch: ProducedBatch) -> bool:
        return any(
            one.producer_id == batch.producer_id and one.first_offset <= batch.base_offset <= one.last_offset
            for one in aborted
            if batch.is_transactional
        )

    offset = max(offset, log.log_start_offset)
    while offset < end:
        data = log.read(offset, _READ_BYTES, end)
        if not data:
            return
        for batch in split_batches(data):
            if not batch.is_control and not is_aborted(batch):
                for record in decode_records(batch, MAX_BATCH_BYTES):
                    if record.offset >= offset:
                        yield Record(partition=index, **record._asdict())
            offset = batch.base_offset + batch.last_offset_delta + 1
