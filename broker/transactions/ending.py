"""What EndTxn makes of a transactional id: the outcome of its transaction, or the answer to a repeated request.

Up to version 4 of EndTxn a producer keeps its epoch; from version 5 on (transaction version 2, KIP-890) each end
raises it, so that a request of an ended transaction cannot be taken for one of the next. Order of the checks: Kafka's
TransactionCoordinator.endTransactionWithTV1 and endTransaction.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from klamm.broker.transactions.transaction import (
    LAST_CLIENT_EPOCH,
    NO_PRODUCER_ID,
    NO_TIME,
    Transaction,
    TransactionState,
)
from klamm.protocol.errors import ErrorCode


class End(NamedTuple):
    """The fields of EndTxn. `has_epoch_bump`: whether the request is of transaction version 2."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    has_epoch_bump: bool
    version: int
    """The transaction version that the transaction's record gets."""


def end(
    known: Transaction, asked: End, new_producer_id: Callable[[], int | None], now_ms: int
) -> Transaction | ErrorCode:
    """The transactional id with a decided transaction; NONE if the request is repeated; or why it is refused."""
    if asked.has_epoch_bump:
        return _end_in_next_epoch(known, asked, new_producer_id, now_ms)
    return _end(known, asked, now_ms)


def _end(known: Transaction, asked: End, now_ms: int) -> Transaction | ErrorCode:
    if asked.producer_id != known.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if asked.producer_epoch != known.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if known.state is TransactionState.ONGOING:
        return known.to(_prepared(asked), now_ms, version=asked.version)
    return _refuse_or_repeat(known, asked)


def _end_in_next_epoch(
    known: Transaction, asked: End, new_producer_id: Callable[[], int | None], now_ms: int
) -> Transaction | ErrorCode:
    took_new_id = (
        known.has_epoch_bump
        and (asked.producer_id, asked.producer_epoch) == (known.previous_producer_id, LAST_CLIENT_EPOCH)
        and known.producer_epoch == 0
    )
    if asked.producer_id != known.producer_id and not took_new_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    is_repeated = took_new_id or (known.has_epoch_bump and known.producer_epoch == asked.producer_epoch + 1)
    if not is_repeated and asked.producer_epoch != known.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if is_repeated:
        is_running = known.state in (TransactionState.ONGOING, TransactionState.EMPTY)
        return ErrorCode.PRODUCER_FENCED if is_running else _refuse_or_repeat(known, asked)
    if known.state is TransactionState.ONGOING:
        return _decided(known, asked, new_producer_id, now_ms)
    if known.state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT):
        return _refuse_or_repeat(known, asked)
    return ErrorCode.INVALID_TXN_STATE if asked.is_commit else _decided(known, asked, new_producer_id, now_ms)


def _decided(
    known: Transaction, asked: End, new_producer_id: Callable[[], int | None], now_ms: int
) -> Transaction | ErrorCode:
    next_producer_id: int | None = NO_PRODUCER_ID
    if known.is_epoch_used_up:
        next_producer_id = new_producer_id()
        if next_producer_id is None:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return known.to(
        _prepared(asked),
        now_ms,
        producer_epoch=known.producer_epoch + 1,
        last_epoch=known.producer_epoch,
        next_producer_id=next_producer_id,
        started_ms=known.started_ms if known.state is TransactionState.ONGOING else now_ms,
        version=asked.version,
    )


def _prepared(asked: End) -> TransactionState:
    return TransactionState.PREPARE_COMMIT if asked.is_commit else TransactionState.PREPARE_ABORT


def _refuse_or_repeat(known: Transaction, asked: End) -> ErrorCode:
    """The answer where the transaction has ended, or where there is none."""
    if known.state is (TransactionState.COMPLETE_COMMIT if asked.is_commit else TransactionState.COMPLETE_ABORT):
        return ErrorCode.NONE
    return ErrorCode.CONCURRENT_TRANSACTIONS if known.state is _prepared(asked) else ErrorCode.INVALID_TXN_STATE


def completed(known: Transaction, now_ms: int) -> Transaction:
    """A decided transaction after all markers are written."""
    is_commit = known.state is TransactionState.PREPARE_COMMIT
    to = TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
    done = known.to(to, now_ms, partitions=frozenset(), started_ms=NO_TIME)
    if known.next_producer_id == NO_PRODUCER_ID:
        return done
    return replace(
        done,
        producer_id=known.next_producer_id,
        producer_epoch=0,
        previous_producer_id=known.producer_id,
        next_producer_id=NO_PRODUCER_ID,
    )
