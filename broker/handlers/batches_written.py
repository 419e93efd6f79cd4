"""The batches of a Produce request that passed the checks: they are written when the request is settled."""

from collections.abc import Collection, Sequence

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.coordinator.shard import Shard
from klamm.broker.data.producers import WrittenBatch
from klamm.broker.data.record_batches import ProducedBatch, RefusedBatch
from klamm.broker.handlers.transactions.verification import Support, verify
from klamm.broker.transactions.transactions import Producer
from klamm.controller.effects import SoftState
from klamm.controller.metadata.image import MetadataImage, Topic
from klamm.controller.metadata.partition import LogKey
from klamm.controller.outcome import NoReply
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.internal_topics import TRANSACTION_STATE
from klamm.protocol.messages.data.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
)
from klamm.quick_dataclasses import dataclass

ACKS_OF_ALL, ACKS_OF_NONE = -1, 0
NO_OFFSET = -1
NO_TIME = -1


@dataclass(slots=True)
class Unacknowledged:
    """A written batch that waits for its replicas. `answer` is the part of the response for its partition."""

    answer: PartitionProduceResponse
    topic: Topic
    leader_epoch: int
    """The epoch of the leader that wrote the batch."""
    isr: tuple[int, ...]
    """The ISR when the batch was written."""
    end_offset: int

    @property
    def key(self) -> LogKey:
        return self.topic.topic_id, self.answer.index


@dataclass(slots=True)
class Accepted:
    """A batch that passed all checks that do not depend on the batches before it."""

    answer: PartitionProduceResponse
    """The batch's part of the response; `BatchesWritten` completes it."""
    topic: Topic
    batch: ProducedBatch
    log_append_time: bool


def _raise_refusal(response: ProduceResponse) -> None:
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                name = ErrorCode(partition.error_code).name
                raise NoReply(f"Produce without acks: {name} for partition {partition.index} of a topic", response)


def refused(partition_index: int, error: ApiError, log_start_offset: int = NO_OFFSET) -> PartitionProduceResponse:
    answer = PartitionProduceResponse(index=partition_index)
    _refuse(answer, error, log_start_offset)
    return answer


def note_reason(reasons: dict[str, str], topic_name: str, error: ApiError) -> None:
    """Keep the reason of a refusal for the request log: clients get the same texts as from Kafka, which has few."""
    if error.message:
        reasons[topic_name] = error.message


def _refuse(answer: PartitionProduceResponse, error: ApiError, log_start_offset: int = NO_OFFSET) -> None:
    answer.error_code = error.code
    answer.error_message = error.kafka_message if isinstance(error, RefusedBatch) else None
    answer.base_offset, answer.log_start_offset = NO_OFFSET, log_start_offset
    if isinstance(error, RefusedBatch):
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=reason)
            for index, reason in error.record_errors
        ]


ASKED_AGAIN_MS = 1_000
"""When a request looks again whether a coordinator on a real broker has answered, although the answer wakes it."""


class BatchesWritten:
    """The effect of the request: it writes the accepted batches and completes the response with their offsets.

    The partition may still refuse a batch: as a duplicate, out of sequence, or because there is no room. That depends
    on the batches of the request that are written before it. Batches of a transaction that is not open in their
    partition are written when its coordinator has verified them, at once as a rule."""

    __slots__ = (
        "_acks",
        "_batches",
        "_brokers",
        "_data",
        "_is_late",
        "_reasons",
        "_response",
        "_shards",
        "_support",
        "_transactional_id",
        "_unverified",
        "unacknowledged",
    )

    def __init__(
        self,
        brokers: SimulatedBrokers,
        response: ProduceResponse,
        request: ProduceRequest,
        batches: list[Accepted],
        support: Support,
        reasons: dict[str, str],
    ) -> None:
        """`reasons` gets the reason of each refusal, by the name of the topic."""
        self.unacknowledged: list[Unacknowledged] = []
        """Written batches that all in-sync replicas have to acknowledge (acks=all)."""
        self._brokers = brokers
        self._data = brokers.data
        self._response = response
        self._acks = request.acks
        self._transactional_id = request.transactional_id or ""
        self._batches = batches
        self._support = support
        self._unverified: list[Accepted] = []
        """Batches that wait for their transaction's coordinator."""
        self._shards: list[Shard] = []
        self._is_late = False
        self._reasons = reasons

    def apply(self, soft: SoftState, now_ms: int) -> None:
        """Write the batches. Raises NoReply if the request has acks=0 and a batch was refused."""
        for accepted in self._batches:
            if accepted.batch.is_transactional and not self._is_in_transaction(accepted):
                self._unverified.append(accepted)
            else:
                self._write(soft.image, accepted, now_ms)
        if self._unverified:
            self._verify(soft.image, now_ms)
        if self._acks == ACKS_OF_NONE:
            _raise_refusal(self._response)

    def _is_in_transaction(self, accepted: Accepted) -> bool:
        """Whether the transaction of the batch is open in its partition, in the same epoch."""
        batch, found = accepted.batch, self._data.find(accepted.topic.topic_id, accepted.answer.index)
        if found is None or not found.transactions.is_open(batch.producer_id):
            return False
        return found.producers.epoch_of(batch.producer_id) == batch.producer_epoch

    def _verify(self, image: MetadataImage, now_ms: int) -> None:
        by_producer: dict[Producer, list[Accepted]] = {}
        for accepted in self._unverified:
            batch = accepted.batch
            if self._brokers.coordinators.leader_of(image, TRANSACTION_STATE, self._transactional_id) is not None:
                self._data.open(image, accepted.topic, accepted.answer.index, now_ms).producers.attempt(batch)
            producer = Producer(self._transactional_id, batch.producer_id, batch.producer_epoch)
            by_producer.setdefault(producer, []).append(accepted)
        for producer, waiting in by_producer.items():

            def then(codes: Sequence[ErrorCode], waiting: list[Accepted] = waiting) -> None:
                for accepted, code in zip(waiting, codes, strict=True):
                    self._verified(image, accepted, code, now_ms)
                    # A coordinator on a real broker changes no partition here, so its answer wakes the request.
                    self._data.watches.touch((accepted.topic.topic_id, accepted.answer.index))

            places = [(accepted.topic.name, accepted.answer.index) for accepted in waiting]
            verify(
                self._brokers,
                image,
                producer,
                places,
                self._support,
                then=then,
                wait_on=self._shards.append,
                now_ms=now_ms,
            )

    def _verified(self, image: MetadataImage, accepted: Accepted, code: ErrorCode, now_ms: int) -> None:
        self._unverified = [one for one in self._unverified if one is not accepted]
        if self._is_late:
            return
        if code:
            self._refuse(accepted, ApiError(code))
        else:
            self._write(image, accepted, now_ms)

    def wait(self, image: MetadataImage, now_ms: int) -> tuple[Collection[LogKey], int] | None:
        """None if no batch waits for a coordinator any more; else the partitions whose change ends the wait, and the
        time at which it may end."""
        for shard in self._shards if self._unverified else ():
            shard.advance(image, now_ms)
        if not self._unverified:
            return None
        if not self._shards:  # a coordinator on a real broker is asked
            keys = [(one.topic.topic_id, one.answer.index) for one in self._unverified]
            return keys, now_ms + ASKED_AGAIN_MS
        due = [due_ms for shard in self._shards if (due_ms := shard.next_due_ms(now_ms)) is not None]
        return [shard.key for shard in self._shards], max(now_ms + 1, min(due, default=now_ms + 1))

    def give_up(self) -> None:
        """The time of the request is over: batches that still wait are not written."""
        self._is_late = True
        for accepted in self._unverified:
            self._refuse(accepted, ApiError(ErrorCode.REQUEST_TIMED_OUT))

    def _refuse(self, accepted: Accepted, error: ApiError, log_start_offset: int = NO_OFFSET) -> None:
        _refuse(accepted.answer, error, log_start_offset)
        note_reason(self._reasons, accepted.topic.name, error)

    def _write(self, image: MetadataImage, accepted: Accepted, now_ms: int) -> None:
        answer, batch = accepted.answer, accepted.batch
        key = accepted.topic.topic_id, answer.index
        found = self._data.find(*key)
        if found and batch.is_idempotent:
            self._data.forget_expired_producers(image, found, now_ms)
        written = found.producers.check(batch) if found else None
        if found and written is None and not batch.is_transactional and found.transactions.is_open(batch.producer_id):
            written = ApiError(ErrorCode.INVALID_TXN_STATE, "The producer has an open transaction in this partition.")
        if found and isinstance(written, ApiError):
            self._refuse(accepted, written, found.log.log_start_offset)
            return
        if isinstance(written, WrittenBatch):  # as in Kafka, a duplicate gets the first one's time, whichever type
            answer.base_offset, answer.log_append_time_ms = written.base_offset, written.timestamp_ms
        else:
            appended = self._data.append(
                image, accepted.topic, answer.index, batch, now_ms, log_append_time=accepted.log_append_time
            )
            if isinstance(appended, ApiError):
                self._refuse(accepted, appended)
                return
            answer.base_offset = appended
            answer.log_append_time_ms = now_ms if accepted.log_append_time else NO_TIME
        log = found or self._data.find(*key)
        assert log is not None, "a partition that was written to is there"
        answer.log_start_offset = log.log.log_start_offset
        if self._acks == ACKS_OF_ALL:
            end_offset = answer.base_offset + batch.record_count
            self.unacknowledged.append(Unacknowledged(answer, accepted.topic, log.leader_epoch, log.isr, end_offset))
