"""The state machine of one partition of `__transaction_state`: its transactional ids and their transactions.

Each operation takes the time and gives an outbox; the waiter's response is described with the operation. The markers
that end a transaction in its partitions are written by `klamm.broker.transactions.markers`. Order of the checks:
Kafka's TransactionCoordinator.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from klamm.broker.coordinator.outbox import Outbox, Waiter, Written
from klamm.broker.coordinator.timers import Timers
from klamm.broker.transactions.beginning import Initialization, begin, fence
from klamm.broker.transactions.ending import End, completed, end
from klamm.broker.transactions.limits import MAX_ID_CHARACTERS, MAX_PARTITIONS, MAX_TRANSACTIONAL_IDS
from klamm.broker.transactions.settings import TransactionSettings
from klamm.broker.transactions.transaction import (
    AT_REST,
    NO_PRODUCER_ID,
    PREPARED,
    Transaction,
    TransactionState,
)
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.records.coordinator.transaction_log import TransactionLogKey, TransactionLogValue
from klamm.quick_dataclasses import dataclass

TIMEOUTS: Final = "timeouts"
EXPIRY: Final = "expiry"
"""The timers: the regular checks for open transactions beyond their timeout, and for unused transactional ids."""
MOST_TIMEOUTS_AT_ONCE: Final = 1_000
"""The transactions that one check aborts at most. The others follow with the next one."""

TopicPartition: TypeAlias = tuple[str, int]


class Producer(NamedTuple):
    """A producer as it names itself in a request."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class Current(NamedTuple):
    """The producer id and epoch to go on with."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of ListTransactions. Empty ones let everything pass."""

    states: Collection[TransactionState]
    producer_ids: Collection[int]
    longer_than_ms: int
    """Only transactions that are open for longer; below 0: all."""
    matches: Callable[[str], bool]
    """Whether a transactional id passes."""

    def passes(self, known: Transaction, now_ms: int) -> bool:
        """Whether a transactional id is to be listed."""
        if self.states and known.state not in self.states:
            return False
        if self.producer_ids and known.producer_id not in self.producer_ids:
            return False
        if self.longer_than_ms >= 0 and now_ms - known.started_ms <= self.longer_than_ms:
            return False
        return self.matches(known.transactional_id)


class Transactions:
    """The transactional ids of one shard (a `CoordinatorState`)."""

    def __init__(
        self,
        settings: TransactionSettings,
        new_producer_id: Callable[[], int | None],
        transaction_version: Callable[[], int],
    ) -> None:
        """`new_producer_id` gives an id that was never given before; None: there is none at the moment.
        `transaction_version` gives the level of the feature transaction.version."""
        self.by_id: dict[str, Transaction] = {}
        self.decided: dict[str, int] = {}
        """The transactional ids whose markers are to be written, and the offset of the record that says so."""
        self._settings = settings
        self._new_producer_id = new_producer_id
        self._transaction_version = transaction_version
        self._timers: Timers[str] = Timers()
        self._written: dict[str, Transaction] = {}
        """What the records of the present operation make. It has `last_epoch`, which records have not."""
        self._ongoing: set[str] = set()
        self._id_characters = 0

    # -- producers -------------------------------------------------------------------------------------------------

    def initialize(self, asked: Initialization, waiter: Waiter, now_ms: int) -> Outbox:
        """InitProducerId: the response is a `Current`."""
        out = Outbox()
        known = self.by_id.get(asked.transactional_id)
        if not 0 < asked.timeout_ms <= self._settings.max_timeout_ms:
            out.refuse(waiter, ErrorCode.INVALID_TRANSACTION_TIMEOUT)
            return out
        if known is None and self._is_full(asked.transactional_id):
            out.refuse(waiter, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return out
        begun = begin(known, asked, self._new_producer_id, now_ms)
        if isinstance(begun, ErrorCode):
            out.refuse(waiter, begun)
            return out
        self._write(begun, out)
        if begun.state is TransactionState.EMPTY:
            out.reply(waiter, Current(begun.producer_id, begun.producer_epoch))
        else:
            out.refuse(waiter, ErrorCode.CONCURRENT_TRANSACTIONS)  # the former transaction is aborted first
        return out

    def add_partitions(
        self, producer: Producer, partitions: Iterable[TopicPartition], waiter: Waiter, now_ms: int, *, version: int = 0
    ) -> Outbox:
        """AddPartitionsToTxn and AddOffsetsToTxn: the response is NONE. `version`: the client's transaction version."""
        out = Outbox()
        known = self._find(producer)
        if not isinstance(known, ErrorCode) and known.state in PREPARED:
            known = ErrorCode.CONCURRENT_TRANSACTIONS
        if isinstance(known, ErrorCode):
            out.refuse(waiter, known)
            return out
        added = known.partitions.union(partitions)
        if len(added) > MAX_PARTITIONS:
            out.refuse(waiter, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return out
        is_ongoing = known.state is TransactionState.ONGOING
        if not is_ongoing or added != known.partitions:
            started_ms = known.started_ms if is_ongoing else now_ms
            changes = {"partitions": added, "started_ms": started_ms, "version": version}
            self._write(known.to(TransactionState.ONGOING, now_ms, **changes), out)
        out.reply(waiter, ErrorCode.NONE)
        return out

    def verify(self, producer: Producer, partitions: Sequence[TopicPartition], waiter: Waiter) -> Outbox:
        """AddPartitionsToTxn that only verifies (KIP-890): the response is the error code of each partition."""
        out = Outbox()
        known = self._find(producer)
        if not isinstance(known, ErrorCode) and known.state in PREPARED:
            known = ErrorCode.CONCURRENT_TRANSACTIONS
        if isinstance(known, ErrorCode):
            out.refuse(waiter, known)
            return out
        out.reply(
            waiter,
            [
                ErrorCode.NONE if partition in known.partitions else ErrorCode.TRANSACTION_ABORTABLE
                for partition in partitions
            ],
        )
        return out

    def end(self, producer: Producer, waiter: Waiter, now_ms: int, *, is_commit: bool, has_epoch_bump: bool) -> Outbox:
        """EndTxn: the response is a `Current`. `has_epoch_bump`: the request is of transaction version 2."""
        out = Outbox()
        known = self.by_id.get(producer.transactional_id)
        if known is None:
            out.refuse(waiter, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
            return out
        bumps = has_epoch_bump and self._transaction_version() >= 2
        asked = End(producer.producer_id, producer.producer_epoch, is_commit, bumps, version=2 if bumps else 0)
        ended = end(known, asked, self._new_producer_id, now_ms)
        if isinstance(ended, ErrorCode):
            if ended:
                out.refuse(waiter, ended)
            else:
                out.reply(waiter, Current(known.producer_id, known.producer_epoch))
            return out
        self._write(ended, out)
        if ended.next_producer_id == NO_PRODUCER_ID:
            out.reply(waiter, Current(ended.producer_id, ended.producer_epoch))
        else:
            out.reply(waiter, Current(ended.next_producer_id, 0))
        return out

    def time_out(self, transactional_id: str, now_ms: int) -> Outbox:
        """Abort an open transaction as if its timeout were over: its producer is fenced."""
        out = Outbox()
        if transactional_id in self._ongoing:
            self._write(fence(self.by_id[transactional_id], now_ms), out)
        return out

    def complete(self, transactional_id: str, now_ms: int) -> Outbox:
        """All markers of a decided transaction are written and replicated."""
        out = Outbox()
        known = self.by_id.get(transactional_id)
        if known is not None and known.state in PREPARED:
            self._write(completed(known, now_ms), out)
        return out

    def _find(self, producer: Producer) -> Transaction | ErrorCode:
        known = self.by_id.get(producer.transactional_id)
        if known is None or known.producer_id != producer.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return known if known.producer_epoch == producer.producer_epoch else ErrorCode.PRODUCER_FENCED

    def _is_full(self, transactional_id: str) -> bool:
        return (
            len(self.by_id) >= MAX_TRANSACTIONAL_IDS or self._id_characters + len(transactional_id) > MAX_ID_CHARACTERS
        )

    def _write(self, transaction: Transaction, out: Outbox) -> None:
        self._written[transaction.transactional_id] = transaction
        transaction.write(out, flexible=self._transaction_version() > 0)

    # -- administration --------------------------------------------------------------------------------------------

    def describe(self, transactional_id: str, waiter: Waiter) -> Outbox:
        """DescribeTransactions for one id: the response is a `Transaction`."""
        out = Outbox()
        known = self.by_id.get(transactional_id)
        if known is None:
            out.refuse(waiter, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        else:
            out.reply(waiter, known)
        return out

    def list(self, filters: Filters, waiter: Waiter, now_ms: int) -> Outbox:
        """ListTransactions for this shard: the response is a list of `Transaction`."""
        out = Outbox()
        out.reply(waiter, [known for known in self.by_id.values() if filters.passes(known, now_ms)])
        return out

    # -- replay ----------------------------------------------------------------------------------------------------

    def replay(self, key: Message, value: Message | None, written: Written) -> None:
        """Apply one record of the partition."""
        if not isinstance(key, TransactionLogKey):
            return
        name = key.transactional_id
        known = self.by_id.pop(name, None)
        if known is not None:
            self._id_characters -= len(name)
        self._ongoing.discard(name)
        self.decided.pop(name, None)
        made = self._written.pop(name, None)
        if value is None:
            return
        assert isinstance(value, TransactionLogValue)
        read = Transaction.from_record(key, value)
        if written.live and made is not None:
            read = replace(read, last_epoch=made.last_epoch)
        self.by_id[name] = read
        self._id_characters += len(name)
        if read.state is TransactionState.ONGOING:
            self._ongoing.add(name)
        elif read.state in PREPARED:
            self.decided[name] = written.offset

    def replay_end_of_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Nothing to do: this topic has no transactional records."""

    def loaded(self, now_ms: int) -> Outbox:
        """Begin the regular checks."""
        self._timers.set(TIMEOUTS, now_ms + self._settings.abort_check_interval_ms)
        self._timers.set(EXPIRY, now_ms + self._settings.expiration_check_interval_ms)
        return Outbox()

    def topics_removed(self, names: Iterable[str]) -> Outbox:
        """Nothing to do: markers for partitions that are gone are not written."""
        return Outbox()

    def waiters(self) -> Iterable[Waiter]:
        """No request waits for another one."""
        return ()

    def snapshots(self) -> None:
        """The newest record of each key is all that counts."""

    # -- time ------------------------------------------------------------------------------------------------------

    @property
    def next_due_ms(self) -> int | None:
        """When the next check is due."""
        return self._timers.next_due_ms

    def tick(self, now_ms: int) -> Outbox | None:
        """Do one check that is due."""
        timer = self._timers.pop_due(now_ms)
        if timer is None:
            return None
        if timer == TIMEOUTS:
            self._timers.set(timer, now_ms + self._settings.abort_check_interval_ms)
            return self._abort_timed_out(now_ms)
        self._timers.set(timer, now_ms + self._settings.expiration_check_interval_ms)
        return self._remove_expired(now_ms)

    def _abort_timed_out(self, now_ms: int) -> Outbox:
        out = Outbox()
        late = [name for name in sorted(self._ongoing) if self.by_id[name].is_timed_out(now_ms)]
        for name in late[:MOST_TIMEOUTS_AT_ONCE]:
            self._write(fence(self.by_id[name], now_ms), out)
        return out

    def _remove_expired(self, now_ms: int) -> Outbox:
        out = Outbox()
        for name, known in self.by_id.items():
            if known.state in AT_REST and known.is_expired(now_ms, self._settings.expiration_ms):
                out.write(TransactionLogKey(transactional_id=name), None)
        return out
