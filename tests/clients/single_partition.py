"""How each library writes one record to a partition and reads from an offset of it, with its own words for refusals."""

import asyncio
import gc
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import NotEnoughReplicasError as AioNotEnoughReplicasError
from aiokafka.errors import OffsetOutOfRangeError as AioOffsetOutOfRangeError
from aiokafka.structs import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import NotEnoughReplicasError, OffsetOutOfRangeError
from kafka.structs import TopicPartition as PythonTopicPartition

SECONDS = 20.0
RETRY_MS = 1000
"""How long aiokafka goes on, which knows no number of retries."""
CLIENT_ID = "reader"

T = TypeVar("T")


class SinglePartition(Protocol):
    """Partition 0 of a topic. A reader is there from `assign` on, one at a time."""

    not_enough_replicas: ClassVar[type[Exception]]
    out_of_range: ClassVar[type[Exception]]
    out_of_range_code: ClassVar[int]
    """Kafka's, or the library's own."""

    def __init__(self, bootstrap_servers: str, topic_name: str) -> None: ...
    def write(self, value: bytes, acks: int | str) -> int:
        """Write one record, with as few retries as the library allows; returns its offset."""

    def assign(self, offset: int, reset: str | None, fetch_wait_ms: int = 500) -> None:
        """Read from `offset` on; `reset` tells where from if that is out of range (earliest, latest), or nowhere."""

    def read(self, seconds: float) -> tuple[int, bytes] | None:
        """The next record's offset and value, if there is one within so many seconds."""

    def close(self) -> None: ...


class ConfluentPartition:
    not_enough_replicas = out_of_range = KafkaException
    out_of_range_code = KafkaError._AUTO_OFFSET_RESET

    def __init__(self, bootstrap_servers: str, topic_name: str) -> None:
        self._common = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
        self._topic_name = topic_name
        self._consumer: Consumer | None = None

    def write(self, value: bytes, acks: int | str) -> int:
        delivered: list[tuple[KafkaError | None, Message]] = []
        producer = Producer({**self._common, "acks": acks, "retries": 0})
        producer.produce(self._topic_name, value, partition=0, on_delivery=lambda *told: delivered.append(told))
        assert producer.flush(SECONDS) == 0
        ((error, message),) = delivered
        if error is not None:
            raise KafkaException(error)
        return _known(message.offset())

    def assign(self, offset: int, reset: str | None, fetch_wait_ms: int = 500) -> None:
        self.close()
        self._consumer = Consumer(
            {
                **self._common,
                "client.id": CLIENT_ID,
                "group.id": "assigns itself",
                "enable.auto.commit": False,
                "auto.offset.reset": reset or "error",
                "fetch.wait.max.ms": fetch_wait_ms,
            }
        )
        self._consumer.assign([ConfluentTopicPartition(self._topic_name, 0, offset)])

    def read(self, seconds: float) -> tuple[int, bytes] | None:
        assert self._consumer is not None
        message = self._consumer.poll(seconds)
        if message is None:
            return None
        if message.error() is not None:
            raise KafkaException(message.error())
        return _known(message.offset()), _known(message.value())

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()


def _known(part: T | None) -> T:
    """A part of a message that is there once it was delivered or read."""
    assert part is not None
    return part


class KafkaPythonPartition:
    not_enough_replicas, out_of_range = NotEnoughReplicasError, OffsetOutOfRangeError
    out_of_range_code = OffsetOutOfRangeError.errno

    def __init__(self, bootstrap_servers: str, topic_name: str) -> None:
        self._servers = bootstrap_servers.split(",")
        self._topic_name = topic_name
        self._consumer: KafkaConsumer | None = None

    def write(self, value: bytes, acks: int | str) -> int:
        producer = KafkaProducer(bootstrap_servers=self._servers, acks=acks, retries=0, enable_idempotence=False)
        try:
            offset: int = producer.send(self._topic_name, value, partition=0).get(SECONDS).offset
        finally:
            producer.close()
        return offset

    def assign(self, offset: int, reset: str | None, fetch_wait_ms: int = 500) -> None:
        self.close()
        self._consumer = KafkaConsumer(
            bootstrap_servers=self._servers,
            client_id=CLIENT_ID,
            group_id=None,
            auto_offset_reset=reset or "none",
            fetch_max_wait_ms=fetch_wait_ms,
            request_timeout_ms=fetch_wait_ms + 30_000,
        )
        partition = PythonTopicPartition(self._topic_name, 0)
        self._consumer.assign([partition])
        self._consumer.seek(partition, offset)

    def read(self, seconds: float) -> tuple[int, bytes] | None:
        assert self._consumer is not None
        return _first(self._consumer.poll(timeout_ms=int(1000 * seconds), max_records=1))

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
        gc.collect()  # a refused connection costs it an unclosed socket; no other test is to be told of it


class AiokafkaPartition:
    not_enough_replicas, out_of_range = AioNotEnoughReplicasError, AioOffsetOutOfRangeError
    out_of_range_code = AioOffsetOutOfRangeError.errno

    def __init__(self, bootstrap_servers: str, topic_name: str) -> None:
        self._servers = bootstrap_servers
        self._topic_name = topic_name
        self._runner = asyncio.Runner()
        self._consumer: AIOKafkaConsumer | None = None

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(call)

    def write(self, value: bytes, acks: int | str) -> int:
        return self._run(self._write(value, acks))

    async def _write(self, value: bytes, acks: int | str) -> int:
        producer = AIOKafkaProducer(bootstrap_servers=self._servers, acks=acks, request_timeout_ms=RETRY_MS)
        async with producer:
            written = await producer.send_and_wait(self._topic_name, value, partition=0)
        offset: int = written.offset
        return offset

    def assign(self, offset: int, reset: str | None, fetch_wait_ms: int = 500) -> None:
        self._run(self._assign(offset, reset, fetch_wait_ms))

    async def _assign(self, offset: int, reset: str | None, fetch_wait_ms: int) -> None:
        await self._stop()
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=self._servers,
            client_id=CLIENT_ID,
            group_id=None,
            auto_offset_reset=reset or "none",
            fetch_max_wait_ms=fetch_wait_ms,
            request_timeout_ms=fetch_wait_ms + 30_000,
        )
        partition = AioTopicPartition(self._topic_name, 0)
        await self._consumer.start()
        self._consumer.assign([partition])
        self._consumer.seek(partition, offset)

    def read(self, seconds: float) -> tuple[int, bytes] | None:
        assert self._consumer is not None
        return _first(self._run(self._consumer.getmany(timeout_ms=int(1000 * seconds), max_records=1)))

    async def _stop(self) -> None:
        if self._consumer is not None:
            await self._consumer.stop()

    def close(self) -> None:
        self._run(self._stop())
        self._runner.close()


def _first(found: Mapping[Any, Sequence[Any]]) -> tuple[int, bytes] | None:
    """What kafka-python and aiokafka have alike."""
    return next(((record.offset, record.value) for records in found.values() for record in records), None)
