"""The records for one partition in a Produce request: one batch, or in the first versions a message set."""

from klamm.broker.data.message_sets import is_message_set, is_without_message, read_message_set
from klamm.broker.data.record_batches import ProducedBatch, RefusedBatch, find_batch
from klamm.broker.data.records import Room, validate_records
from klamm.controller.configs import RecordRules
from klamm.protocol.errors import ErrorCode

FIRST_VERSION_WITH_BATCHES = 3
"""Before, there are message sets (KIP-98)."""


def find_records(records: bytes | memoryview | None, api_version: int) -> bytes | RefusedBatch:
    """The batch, or up to version 2 a message set. As in Kafka, these versions may have no message."""
    if api_version < FIRST_VERSION_WITH_BATCHES:
        if is_without_message(records):
            return b""
        if is_message_set(records):
            return bytes(records or b"")
    return find_batch(records, api_version)


def validated(
    batch: ProducedBatch | bytes, rules: RecordRules, partition_name: str, now_ms: int, room: Room
) -> ProducedBatch | RefusedBatch:
    """The batch as the topic's leader writes it, or why it is refused. Raises NoRoom."""
    if isinstance(batch, bytes):
        converted = read_message_set(batch, rules.max_message_bytes, room)
        if isinstance(converted, RefusedBatch):
            return converted
        batch = converted
        if len(batch.records) > rules.max_message_bytes:
            reason = f"As a batch, the messages have {len(batch.records)} bytes, more than max.message.bytes."
            return RefusedBatch(ErrorCode.MESSAGE_TOO_LARGE, reason)
    return validate_records(batch, rules, partition_name=partition_name, now_ms=now_ms, room=room)
