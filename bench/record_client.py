"""A producer, or a consumer, of confluent-kafka in a process of its own: how long it took for so many records.

python -P -m bench.record_client produce SERVERS TOPIC COUNT PARTITIONS BYTES ACKS
python -P -m bench.record_client consume SERVERS TOPIC COUNT PARTITIONS

BYTES is the size of a record's value; ACKS is all (idempotent), 1, or transactional: all in transactions of 10,000
records, which are read with isolation level read_committed (the library's default).

It writes the seconds to stdout; exit code 1 and a line on stderr if not every record was acknowledged, or read. Before
the clock starts, some records have been written, or read: the connections are there, and the producer has its id.
"""

import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

TRANSACTIONAL = "transactional"
RECORDS_PER_TRANSACTION = 10_000
WARM_UPS = 300
AT_ONCE = 10_000
MOST_QUEUED = 10_000_000
SECONDS = 60.0
POLL_SECONDS = 0.01


class NotAll(Exception):
    """Raised when some records were not acknowledged, or not read."""


class Writer:
    """A producer that counts what was refused."""

    def __init__(self, servers: str, topic_name: str, partitions: int, size: int, acks: str) -> None:
        self.failed: list[KafkaError | None] = []
        self._topic_name, self._partitions = topic_name, partitions
        self._value = (bytes(range(256)) * (size // 256 + 1))[:size]
        self._is_transactional = acks == TRANSACTIONAL
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "acks": "all" if self._is_transactional else acks,
                "enable.idempotence": acks != "1",
                "delivery.report.only.error": True,  # no Python call for each record
                "on_delivery": self._report,
                **({"transactional.id": topic_name} if self._is_transactional else {}),
            }
        )
        if self._is_transactional:
            self._producer.init_transactions(SECONDS)

    def write_all(self, many: int) -> None:
        """Write so many records, and wait until they are acknowledged, or their transactions committed."""
        if not self._is_transactional:
            self._write(many)
            return
        for begin in range(0, many, RECORDS_PER_TRANSACTION):
            self._producer.begin_transaction()
            self._write(min(RECORDS_PER_TRANSACTION, many - begin))
            self._producer.commit_transaction(SECONDS)

    def _write(self, many: int) -> None:
        for number in range(many):
            while True:
                try:
                    self._producer.produce(self._topic_name, self._value, partition=number % self._partitions)
                except BufferError:  # The queue is full.
                    self._producer.poll(POLL_SECONDS)
                    continue
                except KafkaException as refused:  # At once if the library knows the topic already.
                    self.failed.append(refused.args[0])
                break
        if remaining := self._producer.flush(SECONDS):
            raise NotAll(f"{remaining:,} records were not acknowledged in {SECONDS:g} s")

    def _report(self, error: KafkaError | None, _message: Message) -> None:
        self.failed.append(error)


def produce(servers: str, topic_name: str, count: int, partitions: int, size: int, acks: str) -> float:
    """The seconds from the first record until all are acknowledged; records are spread evenly over all partitions."""
    writer = Writer(servers, topic_name, partitions, size, acks)
    writer.write_all(WARM_UPS)
    started = time.perf_counter()
    writer.write_all(count)
    taken = time.perf_counter() - started
    if writer.failed:
        raise NotAll(f"{len(writer.failed):,} records were refused: {writer.failed[0]}")
    return taken


def consume(servers: str, topic_name: str, count: int, partitions: int) -> float:
    """The seconds from the first received record until `count` more are received; the consumer assigns itself all
    partitions."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "assigns itself",  # A required setting; the consumer uses no group.
            "enable.auto.commit": False,
            # Otherwise it would fetch nothing for a second whenever it has this many records, from any server.
            "queued.min.messages": MOST_QUEUED,
        }
    )
    try:
        consumer.assign([TopicPartition(topic_name, index, OFFSET_BEGINNING) for index in range(partitions)])
        _read(consumer, 1)
        remaining = count
        started = time.perf_counter()
        while remaining > 0:
            remaining -= len(_read(consumer, min(AT_ONCE, remaining)))
        return time.perf_counter() - started
    finally:
        consumer.close()


def _read(consumer: Consumer, most: int) -> list[Message]:
    messages = consumer.consume(most, SECONDS)
    if not messages:
        raise NotAll(f"no record came in {SECONDS:g} s")
    for message in messages:
        if message.error():
            raise NotAll(f"a record was not read: {message.error()}")
    return messages


def main(arguments: list[str]) -> int:
    role, servers, topic_name, count, partitions, *rest = arguments
    try:
        if role == "produce":
            size, acks = rest
            taken = produce(servers, topic_name, int(count), int(partitions), int(size), acks)
        else:
            taken = consume(servers, topic_name, int(count), int(partitions))
    except (NotAll, KafkaException) as reason:
        sys.stderr.write(f"{reason}\n")
        return 1
    sys.stdout.write(f"{taken!r}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
