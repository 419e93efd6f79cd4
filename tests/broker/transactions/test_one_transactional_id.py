"""What InitProducerId, EndTxn and the last marker make of one transactional id, and what its record holds."""

from dataclasses import fields, replace
from itertools import count

import pytest

from klamm.broker.coordinator.outbox import Outbox
from klamm.broker.transactions.beginning import Initialization, begin
from klamm.broker.transactions.ending import End, completed, end
from klamm.broker.transactions.transaction import (
    LAST_CLIENT_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIME,
    PREPARED,
    Transaction,
    TransactionState,
)
from klamm.protocol.errors import ErrorCode
from klamm.protocol.records.coordinator.transaction_log import TransactionLogKey, TransactionLogValue

NOW_MS, STARTED_MS, UPDATED_MS = 9_000, 5_000, 6_000
ID, FORMER_ID, NEW_ID = 70, 60, 80
EPOCH = 4
ONGOING = Transaction(
    "x",
    ID,
    EPOCH,
    10_000,
    TransactionState.ONGOING,
    UPDATED_MS,
    STARTED_MS,
    previous_producer_id=FORMER_ID,
    last_epoch=EPOCH - 1,
    partitions=frozenset({("t", 1), ("t", 0), ("u", 5)}),
    version=2,
)
EMPTY = replace(ONGOING, state=TransactionState.EMPTY, started_ms=NO_TIME, partitions=frozenset())


def new_id() -> int:
    return NEW_ID


def begun(known: Transaction, producer_id: int, epoch: int, timeout_ms: int = 10_000) -> Transaction | ErrorCode:
    return begin(known, Initialization("x", timeout_ms, producer_id, epoch), new_id, NOW_MS)


def ended(known: Transaction, epoch: int = EPOCH, *, commit: bool = True) -> Transaction | ErrorCode:
    return end(known, End(known.producer_id, epoch, commit, True, 2), new_id, NOW_MS)


# -- InitProducerId --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", TransactionState)
def test_the_id_of_another_producer_is_fenced_in_every_state(state: TransactionState) -> None:
    assert begun(replace(ONGOING, state=state), ID + 1, EPOCH) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("state", [state for state in TransactionState if state in PREPARED])
def test_a_producer_waits_for_the_markers_of_its_transaction(state: TransactionState) -> None:
    assert begun(replace(ONGOING, state=state), ID, EPOCH) is ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("epoch", [0, EPOCH, LAST_CLIENT_EPOCH - 1])
def test_the_producer_id_before_is_fenced_unless_it_names_its_last_epoch(epoch: int) -> None:
    known = replace(EMPTY, producer_epoch=0, last_epoch=LAST_CLIENT_EPOCH)
    assert begun(known, FORMER_ID, epoch) is ErrorCode.PRODUCER_FENCED
    repeated = begun(known, FORMER_ID, LAST_CLIENT_EPOCH)
    assert isinstance(repeated, Transaction)
    assert (repeated.producer_id, repeated.producer_epoch) == (ID, 0)


def test_a_repeated_request_gets_the_same_epoch_however_often() -> None:
    first = begun(EMPTY, ID, EPOCH)
    assert isinstance(first, Transaction)
    assert first.producer_epoch == EPOCH + 1
    for _ in range(2):
        again = begun(first, ID, EPOCH)
        assert isinstance(again, Transaction)
        assert (again.producer_epoch, again.last_epoch) == (EPOCH + 1, EPOCH)
        first = again
    assert begun(first, ID, EPOCH - 1) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("epoch", [EPOCH, LAST_CLIENT_EPOCH])
@pytest.mark.parametrize("producer_id", [NO_PRODUCER_ID, ID])
def test_the_timeout_is_that_of_the_last_request(epoch: int, producer_id: int) -> None:
    given = epoch if producer_id == ID else NO_EPOCH
    found = begun(replace(EMPTY, producer_epoch=epoch), producer_id, given, 77)
    assert isinstance(found, Transaction)
    assert found.timeout_ms == 77


# -- EndTxn ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [TransactionState.EMPTY, TransactionState.ONGOING])
def test_the_epoch_before_is_fenced_when_its_producer_has_begun_anew(state: TransactionState) -> None:
    assert ended(replace(ONGOING, state=state), EPOCH - 1) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("state", [TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT])
def test_an_abort_without_a_transaction_begins_when_it_ends(state: TransactionState) -> None:
    found = ended(replace(EMPTY, state=state), commit=False)
    assert isinstance(found, Transaction)
    assert (found.state, found.started_ms) == (TransactionState.PREPARE_ABORT, NOW_MS)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("epoch", [EPOCH, LAST_CLIENT_EPOCH])
def test_a_completed_transaction_has_no_start_and_no_partitions(commit: bool, epoch: int) -> None:
    decided = ended(replace(ONGOING, producer_epoch=epoch), epoch, commit=commit)
    assert isinstance(decided, Transaction)
    assert (decided.started_ms, decided.partitions) == (STARTED_MS, ONGOING.partitions)
    done = completed(decided, NOW_MS + 1)
    assert (done.started_ms, done.partitions, done.updated_ms) == (NO_TIME, frozenset(), NOW_MS + 1)
    if epoch == EPOCH:
        assert (done.producer_id, done.producer_epoch, done.previous_producer_id) == (ID, EPOCH + 1, FORMER_ID)
    else:
        assert (done.producer_id, done.producer_epoch, done.previous_producer_id) == (NEW_ID, 0, ID)
    assert done.next_producer_id == NO_PRODUCER_ID


# -- time and records ------------------------------------------------------------------------------------------------


def test_a_transaction_is_late_after_its_timeout_and_an_unused_id_expires_at_its_time() -> None:
    assert not ONGOING.is_timed_out(STARTED_MS + 10_000)
    assert ONGOING.is_timed_out(STARTED_MS + 10_001)
    assert not EMPTY.is_timed_out(STARTED_MS + 10_001)
    assert not EMPTY.is_expired(UPDATED_MS + 99, 100)
    assert EMPTY.is_expired(UPDATED_MS + 100, 100)
    assert not ONGOING.is_expired(UPDATED_MS + 100, 100)


def test_a_record_keeps_every_field_but_the_epoch_before() -> None:
    """Each field has a value of its own, so that no two of them can be mistaken for each other."""
    numbers = count(11)
    distinct = {one.name: next(numbers) for one in fields(Transaction) if one.type == "int" or one.type is int}
    for known in (ONGOING, replace(ONGOING, state=TransactionState.COMPLETE_ABORT)):
        written = replace(known, **distinct)  # type: ignore[arg-type]
        out = Outbox()
        written.write(out, flexible=True)
        ((key, value, version),) = out.records
        assert version == 1
        assert isinstance(key, TransactionLogKey)
        assert isinstance(value, TransactionLogValue)
        assert Transaction.from_record(key, value) == replace(written, last_epoch=NO_EPOCH)
