"""What InitProducerId makes of a transactional id: a new epoch, a new producer id, or a fenced producer.

Order of the checks: Kafka's TransactionCoordinator.prepareInitProducerIdTransit.
"""

from collections.abc import Callable
from typing import NamedTuple

from klamm.broker.transactions.transaction import (
    AT_REST,
    FIRST_VERSION_WITH_EPOCH_BUMP,
    LAST_CLIENT_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIME,
    PREPARED,
    Transaction,
    TransactionState,
)
from klamm.protocol.errors import ErrorCode


class Initialization(NamedTuple):
    """The fields of InitProducerId. Id and epoch are -1 for a producer that begins (KIP-360)."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


def begin(
    known: Transaction | None, asked: Initialization, new_producer_id: Callable[[], int | None], now_ms: int
) -> Transaction | ErrorCode:
    """The transactional id after the request, or why the request is refused."""
    if known is None:
        producer_id = new_producer_id()
        if producer_id is None:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return Transaction(
            asked.transactional_id, producer_id, 0, asked.timeout_ms, TransactionState.EMPTY, updated_ms=now_ms
        )
    if asked.producer_id != NO_PRODUCER_ID and not _is_own(known, asked):
        return ErrorCode.PRODUCER_FENCED
    if known.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if known.state not in AT_REST:
        return fence(known, now_ms)
    if known.is_epoch_used_up and asked.producer_epoch in (NO_EPOCH, known.producer_epoch):
        return _with_new_producer_id(known, asked, new_producer_id(), now_ms)
    return _with_next_epoch(known, asked, now_ms)


def fence(known: Transaction, now_ms: int) -> Transaction:
    """The ongoing transaction aborted in the next epoch, so that its producer can write no more."""
    return known.to(
        TransactionState.PREPARE_ABORT,
        now_ms,
        producer_epoch=known.producer_epoch + 1,
        last_epoch=known.producer_epoch,
        version=FIRST_VERSION_WITH_EPOCH_BUMP,
    )


def _is_own(known: Transaction, asked: Initialization) -> bool:
    """Whether the producer id is the present one, or the one before, whose last epoch asks again."""
    return asked.producer_id == known.producer_id or (
        asked.producer_id == known.previous_producer_id and asked.producer_epoch >= LAST_CLIENT_EPOCH
    )


def _with_new_producer_id(
    known: Transaction, asked: Initialization, producer_id: int | None, now_ms: int
) -> Transaction | ErrorCode:
    if producer_id is None:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return known.to(
        TransactionState.EMPTY,
        now_ms,
        producer_id=producer_id,
        previous_producer_id=known.producer_id,
        producer_epoch=0,
        last_epoch=known.producer_epoch if asked.producer_epoch != NO_EPOCH else NO_EPOCH,
        timeout_ms=asked.timeout_ms,
        started_ms=NO_TIME,
        partitions=frozenset(),
    )


def _with_next_epoch(known: Transaction, asked: Initialization, now_ms: int) -> Transaction | ErrorCode:
    epoch, last_epoch = known.producer_epoch + 1, NO_EPOCH
    if asked.producer_epoch != NO_EPOCH:
        if asked.producer_epoch == known.producer_epoch:
            last_epoch = known.producer_epoch
        elif asked.producer_epoch == known.last_epoch or asked.producer_id == known.previous_producer_id:
            epoch, last_epoch = known.producer_epoch, known.last_epoch  # the request is repeated
        else:
            return ErrorCode.PRODUCER_FENCED
    return known.to(
        TransactionState.EMPTY,
        now_ms,
        producer_epoch=epoch,
        last_epoch=last_epoch,
        timeout_ms=asked.timeout_ms,
        started_ms=NO_TIME,
        partitions=frozenset(),
    )
