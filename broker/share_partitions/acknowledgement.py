"""How a member acknowledges records that it has acquired. Order of the checks and texts: `SharePartition.acknowledge`
of Apache Kafka 4.3."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from klamm.broker.share_partitions.in_flight import NOBODY, InFlight, InFlightBatch, RecordState
from klamm.broker.share_partitions.releases import Changes, Done
from klamm.broker.share_partitions.share_partition import SharePartition
from klamm.protocol.errors import ApiError, ErrorCode

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
"""Acknowledgement types. A gap is an offset without a record."""
_STATES: Final = {
    GAP: RecordState.ARCHIVED,
    ACCEPT: RecordState.ACKNOWLEDGED,
    RELEASE: RecordState.AVAILABLE,
    REJECT: RecordState.ARCHIVED,
}
INCOMPLETE: Final = "The record state is invalid. The acknowledgement of delivery could not be completed."
NOT_ACQUIRED: Final = "The batch cannot be acknowledged. The batch is not in the acquired state."


class Acknowledged(NamedTuple):
    """Offsets with one type for all of them, or a type for each."""

    first_offset: int
    last_offset: int
    types: Sequence[int]

    def type_of(self, offset: int) -> int:
        return self.types[offset - self.first_offset] if len(self.types) > 1 else self.types[0]


def acknowledge(partition: SharePartition, member_id: str, batches: Sequence[Acknowledged], done: Done) -> None:
    """Carry out the acknowledgements of one request, all of them or none, and call `done` when they are written."""
    changes = Changes(partition)
    for asked in batches:
        if asked.last_offset < partition.start_offset:
            continue  # complete already
        error = _acknowledge_one(partition, member_id, asked, changes)
        if error is not None:
            changes.roll_back()
            done(error)
            return
    changes.write(done)


def _acknowledge_one(
    partition: SharePartition, member_id: str, asked: Acknowledged, changes: Changes
) -> ApiError | None:
    found = _find_batches(partition, asked)
    if isinstance(found, ApiError):
        return found
    for batch in found:
        if batch.last_offset < partition.start_offset:
            continue
        error = _check_owner(batch, member_id) or _acknowledge_batch(partition, member_id, asked, batch, changes)
        if error is not None:
            return error
    return None


def _find_batches(partition: SharePartition, asked: Acknowledged) -> list[InFlightBatch] | ApiError:
    floor = partition.batches.floor(asked.first_offset)
    if floor is None and asked.first_offset < partition.start_offset <= asked.last_offset:
        floor = partition.batches.floor(partition.start_offset)
    if floor is None:
        text = "Batch record not found. The request batch offsets are not found in the cache."
        return ApiError(ErrorCode.INVALID_RECORD_STATE, text)
    found = partition.batches.between(floor.first_offset, asked.last_offset)
    if found[-1].last_offset < asked.first_offset:
        text = "Batch record not found. The first offset in request is past acquired records."
        return ApiError(ErrorCode.INVALID_REQUEST, text)
    if asked.last_offset > found[-1].last_offset:
        text = "Batch record not found. The last offset in request is past acquired records."
        return ApiError(ErrorCode.INVALID_REQUEST, text)
    return found


def _check_owner(batch: InFlightBatch, member_id: str) -> ApiError | None:
    whole = batch.whole
    if whole is None:
        return None
    if whole.member_id == NOBODY:
        return _invalid(NOT_ACQUIRED)
    if whole.member_id != member_id:
        return _invalid("Member is not the owner of batch record")
    return _invalid(INCOMPLETE) if whole.is_changing else None


def _acknowledge_batch(
    partition: SharePartition, member_id: str, asked: Acknowledged, batch: InFlightBatch, changes: Changes
) -> ApiError | None:
    whole = batch.whole
    is_whole = batch.is_within(asked.first_offset, asked.last_offset) and len(asked.types) == 1
    if whole is not None and is_whole and not partition.begins_within(batch):
        if whole.state is not RecordState.ACQUIRED:
            return _invalid(NOT_ACQUIRED)
        return _change(partition, member_id, (batch.first_offset, batch.last_offset), whole, asked.types[0], changes)
    if whole is not None:
        if whole.state is not RecordState.ACQUIRED:
            return _invalid("The batch cannot be acknowledged. The subset batch is not in the acquired state.")
        partition.split(batch)
    for offset, state in batch.offsets.items():
        if offset > asked.last_offset:
            break
        if offset < asked.first_offset or offset < partition.start_offset:
            continue
        error = _check_offset(state, member_id) or _change(
            partition, member_id, (offset, offset), state, asked.type_of(offset), changes
        )
        if error is not None:
            return error
    return None


def _check_offset(state: InFlight, member_id: str) -> ApiError | None:
    if state.state is not RecordState.ACQUIRED:
        return _invalid("The offset cannot be acknowledged. The offset is not acquired.")
    if state.is_changing:
        return _invalid(INCOMPLETE)
    return None if state.member_id == member_id else _invalid("Member is not the owner of offset")


def _change(
    partition: SharePartition,
    member_id: str,
    offsets: tuple[int, int],
    state: InFlight,
    kind: int,
    changes: Changes,
) -> ApiError | None:
    if kind == RENEW:
        if not partition.around.configs().renew_enabled:
            return _invalid("Renewing acquisition locks is not enabled for the group.")
        state.unlock()
        state.lock = partition.lock(member_id, *offsets)
        return None
    if not changes.begin(*offsets, state, _STATES[kind]):
        return _invalid("Unable to acknowledge records for the batch")
    if state.state.is_terminal:
        partition.delivery_complete_count += offsets[1] - offsets[0] + 1
    return None


def _invalid(text: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD_STATE, text)
