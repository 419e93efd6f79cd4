"""Readers of committed records, as clients are written, and what they may see."""

from collections import Counter

from klamm.broker.coordinator.batches import EndOfTransaction, decode_records
from klamm.broker.data.record_batches import decode_header
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.data.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from tests.simulation.applications.truth import Outcome, Transactions
from tests.simulation.applications.world import LEADER, WRITTEN, Application, Ask, World
from tests.simulation.cluster.violation import demand

READ_COMMITTED = 1
PAUSE_MS = 300
FETCHED_BYTES = 400
LENGTH_AT, LENGTH_END = 8, 12


class Reader:
    """Reads one partition from its beginning on. `seen` are the values by offset."""

    def __init__(self, world: World, transactions: Transactions, partition: int) -> None:
        self.seen: dict[int, str] = {}
        self.offset = 0
        self._world = world
        self._transactions = transactions
        self._partition = partition

    def run(self) -> Application:
        while True:
            yield from self.read()
            yield PAUSE_MS

    def read(self) -> Application:
        """One Fetch."""
        topic = self._world.image.topics_by_name[WRITTEN]
        partition = FetchPartition(
            partition=self._partition, fetch_offset=self.offset, partition_max_bytes=FETCHED_BYTES
        )
        request = FetchRequest(
            max_wait_ms=0,
            isolation_level=READ_COMMITTED,
            max_bytes=1 << 20,
            topics=[FetchTopic(topic=WRITTEN, topic_id=topic.topic_id, partitions=[partition])],
        )
        response = yield Ask((LEADER, (WRITTEN, self._partition)), request, may_stray=False)  # followers may know less
        if response is None or response.error_code:
            return
        (found,) = response.responses[0].partitions
        reason = f"partition {self._partition} at {self.offset}"
        demand("no_committed_record_is_lost", found.error_code != ErrorCode.OFFSET_OUT_OF_RANGE, reason)
        if not found.error_code:
            self._take(found)

    def _take(self, found: PartitionData) -> None:
        """The records of a response without those of aborted transactions, as Kafka's consumer takes them."""
        aborted = sorted((one.first_offset, one.producer_id) for one in found.aborted_transactions or ())
        open_aborted: set[int] = set()
        data, at = found.records or b"", 0
        while at + LENGTH_END < len(data):
            end = at + LENGTH_END + int.from_bytes(data[at + LENGTH_AT : at + LENGTH_END], "big")
            if end > len(data):
                break
            batch, at = decode_header(data[at:end]), end
            last = batch.base_offset + batch.last_offset_delta
            while aborted and aborted[0][0] <= last:
                open_aborted.add(aborted.pop(0)[1])
            for record in decode_records(batch):
                if isinstance(record, EndOfTransaction):
                    if not record.committed:
                        open_aborted.discard(record.producer_id)
                elif batch.producer_id not in open_aborted and record.offset >= self.offset:
                    self._see(record.offset, (record.value or b"").decode())
            self.offset = last + 1
        demand("readers_stay_below_the_last_stable_offset", self.offset <= max(found.last_stable_offset, 0), "")

    def _see(self, offset: int, value: str) -> None:
        transaction = self._transactions.of_value[value]
        committed = transaction.outcome in (Outcome.COMMITTED, Outcome.UNKNOWN)
        reason = f"{value} at {offset} of partition {self._partition}: {transaction.outcome}"
        demand("a_reader_of_committed_records_sees_no_others", committed, reason)
        transaction.decide(Outcome.COMMITTED)
        demand("no_record_is_seen_twice", value not in self.seen.values(), reason)
        self.seen[offset] = value


def judge_what_was_read(transactions: Transactions, readers: list[Reader], fresh: list[Reader]) -> None:
    """At the end: readers from the beginning see what earlier ones have seen, and whole transactions."""
    for reader, second in zip(readers, fresh, strict=True):
        demand("readers_agree", reader.seen == second.seen, f"{reader.seen} {second.seen}")
    seen = Counter(value for reader in fresh for value in reader.seen.values())
    for transaction in transactions.all:
        missing = transaction.acknowledged - seen.keys()
        found = transaction.values.keys() & seen.keys()
        reason = f"{transaction.transactional_id} {transaction.serial} {transaction.outcome}: {missing} {found}"
        if transaction.outcome is Outcome.COMMITTED:
            demand("every_committed_record_is_seen", not missing, reason)
        elif transaction.outcome is not Outcome.UNKNOWN:
            demand("a_reader_of_committed_records_sees_no_others", not found, reason)
        demand("transactions_are_whole", not (missing and found), reason)


def offsets_of(world: World, partition: int) -> tuple[set[int], set[int]]:
    """The offsets of a partition's records, committed or not, and those of the markers among them."""
    found = world.data.find(world.image.topics_by_name[WRITTEN].topic_id, partition)
    records: set[int] = set()
    markers: set[int] = set()
    at, end = (0, 0) if found is None else (found.log.log_start_offset, found.log.log_end_offset)
    while found is not None and at < end:
        batch = decode_header(found.log.read(at, 1, end) or b"")
        last = batch.base_offset + batch.last_offset_delta
        (markers if batch.is_control else records).update(range(batch.base_offset, last + 1))
        at = last + 1
    return records, markers
