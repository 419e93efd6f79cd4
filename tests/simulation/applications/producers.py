"""Transactional producers, of transaction version 1 and 2, as clients are written: they repeat what gets no answer."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.messages.data.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from klamm.protocol.messages.offsets.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from klamm.protocol.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest
from klamm.protocol.messages.transactions.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestAddPartitionsToTxnTopic,
)
from klamm.protocol.messages.transactions.end_txn import EndTxnRequest
from klamm.protocol.messages.transactions.init_producer_id import InitProducerIdRequest
from tests.broker.data.batches import batch, record
from tests.simulation.applications.truth import Offsets, Outcome, Transaction, Transactions
from tests.simulation.applications.world import (
    GROUP,
    LEADER,
    SUBSCRIBED,
    SUBSCRIBED_PARTITIONS,
    TRANSACTION,
    WRITTEN,
    WRITTEN_PARTITIONS,
    Application,
    Ask,
    Place,
    World,
)
from tests.simulation.cluster.violation import demand

E = ErrorCode
TIMEOUT_MS = 6_000
RETRY_MS = 150
TRIES = 8
RETRIABLE = frozenset(
    {
        E.NOT_COORDINATOR,
        E.COORDINATOR_NOT_AVAILABLE,
        E.COORDINATOR_LOAD_IN_PROGRESS,
        E.CONCURRENT_TRANSACTIONS,
        E.NOT_LEADER_OR_FOLLOWER,
        E.REQUEST_TIMED_OUT,
        E.NOT_ENOUGH_REPLICAS,
        E.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        E.LEADER_NOT_AVAILABLE,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.KAFKA_STORAGE_ERROR,
    }
)


class _Failed(Exception):
    """The transaction cannot go on."""


@dataclass
class Producer:
    """What one producer knows. `life` counts the producers of all transactional ids."""

    transactional_id: str
    life: int
    version: int
    """Of transactions: 1 or 2."""
    producer_id: int = -1
    epoch: int = -1
    sequences: dict[int, int] = field(default_factory=dict)
    leaving: bool = False
    chance: Random = field(default_factory=Random)


class Producers:
    """Makes producers, and judges what they are answered."""

    def __init__(self, world: World, offsets: Offsets, transactions: Transactions) -> None:
        self._world = world
        self._offsets = offsets
        self._transactions = transactions

    def group_of(self, transactional_id: str) -> str:
        """The group whose offsets a producer commits."""
        return f"of-{transactional_id}"

    def run(self, me: Producer) -> Application:
        """One transaction after the other."""
        while not me.leaving:
            try:
                yield from self._initialize(me)
                while not me.leaving:
                    yield from self._transact(me)
                    yield me.chance.choice((10, 200, 1_000))
            except _Failed:
                if self._transactions.is_fenced(me.transactional_id, me.life) and me.chance.random() < 0.7:
                    return
                yield RETRY_MS

    def _until_answered(
        self,
        me: Producer,
        at: Place,
        request: Message,
        version: int,
        code_of: Callable[[Any], int],
        arrives: Callable[[], None],
    ) -> Application:
        """Send a request until there is an answer that is not to be repeated. The generator's result is the answer.

        With transaction version 1, transactions of one producer have one epoch, so a late request may belong to the
        next one (what KIP-890 mends): such producers send none.
        """
        for _ in range(TRIES):
            response = yield Ask(at, request, version, arrives, may_be_late=me.version > 1)
            if response is not None and code_of(response) not in RETRIABLE:
                return response
            yield RETRY_MS
        raise _Failed

    def _judge(self, me: Producer, was_fenced: list[bool], what: str) -> None:
        """The request was accepted: at none of its arrivals the producer was fenced."""
        reason = f"{what} of {me.transactional_id} {me.producer_id} in epoch {me.epoch}"
        demand("a_fenced_producer_changes_nothing", not all(was_fenced), reason)

    def _initialize(self, me: Producer) -> Application:
        request = InitProducerIdRequest(transactional_id=me.transactional_id, transaction_timeout_ms=TIMEOUT_MS)
        lives: list[int] = []
        found = yield from self._until_answered(
            me,
            (TRANSACTION, me.transactional_id),
            request,
            4,
            lambda one: one.error_code,
            lambda: lives.append(self._transactions.next_life()),
        )
        if found.error_code:
            raise _Failed
        me.life = lives[-1]
        self._transactions.initialized(me.transactional_id, me.life)
        me.producer_id, me.epoch, me.sequences = found.producer_id, found.producer_epoch, {}

    def _transact(self, me: Producer) -> Application:
        transaction = self._transactions.begin(me.transactional_id, me.life)
        try:
            for _ in range(me.chance.choice((1, 1, 2, 4))):
                yield from self._write(me, transaction)
                if me.chance.random() < 0.2:
                    yield me.chance.choice((100, 2_000, 9_000))
            if me.chance.random() < 0.5:
                yield from self._commit_offset(me, transaction)
        except _Failed:
            yield from self._end(me, transaction, commit=False)
            raise
        yield from self._end(me, transaction, commit=me.chance.random() < 0.7)

    def _write(self, me: Producer, transaction: Transaction) -> Application:
        partition, count = me.chance.randrange(WRITTEN_PARTITIONS), me.chance.choice((1, 1, 3))
        if me.version == 1:
            yield from self._add_partition(me, partition)
        first = len(transaction.values)
        values = [f"{me.transactional_id}/{transaction.serial}/{first + at}" for at in range(count)]
        sequence = me.sequences.get(partition, 0)
        records = batch(
            [record(at, value=value.encode()) for at, value in enumerate(values)],
            timestamp_ms=self._world.clock.now_ms,
            producer_id=me.producer_id,
            producer_epoch=me.epoch,
            base_sequence=sequence,
            attributes=1 << 4,
        )
        topic = self._world.image.topics_by_name[WRITTEN]
        data = TopicProduceData(
            name=WRITTEN,
            topic_id=topic.topic_id,
            partition_data=[PartitionProduceData(index=partition, records=records)],
        )
        request = ProduceRequest(acks=-1, timeout_ms=2_000, transactional_id=me.transactional_id, topic_data=[data])
        was_fenced: list[bool] = []

        def arrives() -> None:
            was_fenced.append(self._transactions.is_fenced(me.transactional_id, life))
            for value in values:
                self._transactions.writes(transaction, value, partition)

        life = me.life
        found = yield from self._until_answered(
            me,
            (LEADER, (WRITTEN, partition)),
            request,
            11 if me.version == 1 else 12,
            lambda one: one.responses[0].partition_responses[0].error_code,
            arrives,
        )
        if found.responses[0].partition_responses[0].error_code:
            raise _Failed
        self._judge(me, was_fenced, "Produce")
        transaction.acknowledged.update(values)
        me.sequences[partition] = sequence + count

    def _add_partition(self, me: Producer, partition: int) -> Application:
        topic = AddPartitionsToTxnRequestAddPartitionsToTxnTopic(name=WRITTEN, partitions=[partition])
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=me.transactional_id,
            v3_and_below_producer_id=me.producer_id,
            v3_and_below_producer_epoch=me.epoch,
            v3_and_below_topics=[topic],
        )
        yield from self._accepted(
            me,
            (TRANSACTION, me.transactional_id),
            request,
            3,
            lambda one: one.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
        )

    def _accepted(
        self, me: Producer, at: Place, request: Message, version: int, code_of: Callable[[Any], int]
    ) -> Application:
        """Send a request that changes the transaction. Raises _Failed unless it is accepted."""
        was_fenced: list[bool] = []
        life = me.life
        found = yield from self._until_answered(
            me,
            at,
            request,
            version,
            code_of,
            lambda: was_fenced.append(self._transactions.is_fenced(me.transactional_id, life)),
        )
        if code_of(found):
            raise _Failed
        self._judge(me, was_fenced, type(request).__name__)

    def _commit_offset(self, me: Producer, transaction: Transaction) -> Application:
        group_id = self.group_of(me.transactional_id)
        if me.version == 1:
            adds = AddOffsetsToTxnRequest(
                transactional_id=me.transactional_id,
                producer_id=me.producer_id,
                producer_epoch=me.epoch,
                group_id=group_id,
            )
            yield from self._accepted(me, (TRANSACTION, me.transactional_id), adds, 3, lambda one: one.error_code)
        offset = self._offsets.next_offset()
        partition = TxnOffsetCommitRequestPartition(partition_index=SUBSCRIBED_PARTITIONS - 1, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=me.transactional_id,
            group_id=group_id,
            producer_id=me.producer_id,
            producer_epoch=me.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=SUBSCRIBED, partitions=[partition])],
        )
        transaction.offset, transaction.offset_is_unknown = offset, True
        yield from self._accepted(
            me,
            (GROUP, group_id),
            request,
            4 if me.version == 1 else 5,
            lambda one: one.topics[0].partitions[0].error_code,
        )
        transaction.offset_is_unknown = False

    def _end(self, me: Producer, transaction: Transaction, *, commit: bool) -> Application:
        """EndTxn. Raises _Failed if the producer has to begin anew."""
        if not transaction.values and transaction.offset is None:
            return
        request = EndTxnRequest(
            transactional_id=me.transactional_id,
            producer_id=me.producer_id,
            producer_epoch=me.epoch,
            committed=commit,
        )
        life, was_fenced = me.life, []

        def arrives() -> None:
            fenced = self._transactions.is_fenced(me.transactional_id, life)
            was_fenced.append(fenced)
            if commit and not fenced and transaction.outcome is Outcome.OPEN:
                transaction.outcome = Outcome.UNKNOWN

        found = yield from self._until_answered(
            me,
            (TRANSACTION, me.transactional_id),
            request,
            4 if me.version == 1 else 5,
            lambda one: one.error_code,
            arrives,
        )
        if found.error_code:
            raise _Failed
        self._judge(me, was_fenced, "EndTxn")
        transaction.decide(Outcome.COMMITTED if commit else Outcome.ABORTED)
        if me.version != 1:
            me.producer_id, me.epoch, me.sequences = found.producer_id, found.producer_epoch, {}
