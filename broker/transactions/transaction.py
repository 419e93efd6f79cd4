"""One transactional id: its producer and its transaction, as values, and the table of the states.

Source: Kafka's TransactionMetadata and TransactionState; KIP-98, KIP-360, KIP-890.
"""

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import Final

from klamm.broker.coordinator.outbox import Outbox
from klamm.protocol.records.coordinator.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from klamm.quick_dataclasses import dataclass

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1
LAST_EPOCH: Final = 2**15 - 1
LAST_CLIENT_EPOCH: Final = LAST_EPOCH - 1
"""The last epoch that a producer gets. `LAST_EPOCH` is left for markers that fence it."""
FIRST_VERSION_WITH_EPOCH_BUMP: Final = 2
"""The transaction version (feature transaction.version) in which each transaction has an epoch of its own (KIP-890)."""


class TransactionState(Enum):
    """The states by Kafka's names; their numbers in records are in `STATE_NUMBERS`."""

    EMPTY = "Empty"
    """The transactional id has a producer and no transaction."""
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    """The outcome is decided, markers are written."""
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    """The transactional id is about to be removed. No transactional id is in this state here."""
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    """The producer is being fenced. Its transaction changes to `PREPARE_ABORT` in the same operation here."""


STATE_NUMBERS: Final[Mapping[TransactionState, int]] = {state: at for at, state in enumerate(TransactionState)}
STATES: Final = tuple(TransactionState)

PREVIOUS_STATES: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.EMPTY: frozenset(
        {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
    ),
    TransactionState.ONGOING: frozenset(
        {
            TransactionState.EMPTY,
            TransactionState.ONGOING,
            TransactionState.COMPLETE_COMMIT,
            TransactionState.COMPLETE_ABORT,
        }
    ),
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    # With transaction version 2 a producer may abort before it has added a partition.
    TransactionState.PREPARE_ABORT: frozenset(
        {
            TransactionState.ONGOING,
            TransactionState.PREPARE_EPOCH_FENCE,
            TransactionState.EMPTY,
            TransactionState.COMPLETE_COMMIT,
            TransactionState.COMPLETE_ABORT,
        }
    ),
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: frozenset(
        {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
    ),
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.ONGOING}),
}
"""The table of transitions: for each state those that it may follow."""

PREPARED: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
AT_REST: Final = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})
"""The states without a transaction."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """What a coordinator knows of one transactional id; times in ms."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    updated_ms: int
    started_ms: int = NO_TIME
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id after the transaction, if the epochs of the present one are used up."""
    last_epoch: int = NO_EPOCH
    """The epoch before the last change of epoch, for requests that are repeated. It is in no record."""
    partitions: frozenset[tuple[str, int]] = frozenset()
    version: int = 0
    """The transaction version of the client."""

    def to(self, state: TransactionState, now_ms: int, **changes: object) -> "Transaction":
        """The same in another state."""
        assert self.state in PREVIOUS_STATES[state], f"{self.state} to {state}"
        return replace(self, state=state, updated_ms=now_ms, **changes)  # type: ignore[arg-type]

    @property
    def has_epoch_bump(self) -> bool:
        """Whether the epoch grows with each transaction (KIP-890)."""
        return self.version >= FIRST_VERSION_WITH_EPOCH_BUMP

    @property
    def is_epoch_used_up(self) -> bool:
        """Whether the producer id has no further epoch for a producer."""
        return self.producer_epoch >= LAST_CLIENT_EPOCH

    def is_timed_out(self, now_ms: int) -> bool:
        """Whether its transaction is open for longer than its timeout."""
        return self.state is TransactionState.ONGOING and self.started_ms + self.timeout_ms < now_ms

    def is_expired(self, now_ms: int, expiration_ms: int) -> bool:
        """Whether the transactional id was not used for so long that it is removed."""
        return self.state in AT_REST and now_ms - self.updated_ms >= expiration_ms

    def write(self, out: Outbox, *, flexible: bool) -> None:
        """Write its record, in version 1 if `flexible`, else in version 0."""
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(self.partitions):
            by_topic.setdefault(topic, []).append(partition)
        value = TransactionLogValue(
            producer_id=self.producer_id,
            previous_producer_id=self.previous_producer_id if flexible else NO_PRODUCER_ID,
            next_producer_id=self.next_producer_id if flexible else NO_PRODUCER_ID,
            producer_epoch=self.producer_epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=STATE_NUMBERS[self.state],
            transaction_partitions=(
                None
                if self.state is TransactionState.EMPTY
                else [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in by_topic.items()]
            ),
            transaction_last_update_timestamp_ms=self.updated_ms,
            transaction_start_timestamp_ms=self.started_ms,
            client_transaction_version=self.version if flexible else 0,
        )
        out.write(TransactionLogKey(transactional_id=self.transactional_id), value, 1 if flexible else 0)

    @classmethod
    def from_record(cls, key: TransactionLogKey, value: TransactionLogValue) -> "Transaction":
        """The transactional id as its last record has it."""
        return cls(
            key.transactional_id,
            value.producer_id,
            value.producer_epoch,
            value.transaction_timeout_ms,
            STATES[value.transaction_status],
            value.transaction_last_update_timestamp_ms,
            value.transaction_start_timestamp_ms,
            value.previous_producer_id,
            value.next_producer_id,
            partitions=frozenset(
                (topic.topic, partition)
                for topic in value.transaction_partitions or ()
                for partition in topic.partition_ids
            ),
            version=value.client_transaction_version,
        )
