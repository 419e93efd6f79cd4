"""Groups and transactions of real clients while their coordinators move and under a storm of fault rules: every record
is processed exactly once, and every rule has hit as often as it says."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from aiokafka.structs import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from klamm.cluster.server_process import ServerProcess

SECONDS = 60
RECORDS = 40
BATCH = 5
STORM: Mapping[str, Mapping[str, Any]] = {
    "find": {"api": "FindCoordinator", "error": "COORDINATOR_NOT_AVAILABLE", "times": 2},
    "join": {"api": "JoinGroup", "error": "NOT_COORDINATOR", "times": 1},
    "sync": {"api": "SyncGroup", "error": "NOT_COORDINATOR", "times": 1},
    "offsets": {"api": "OffsetFetch", "error": "COORDINATOR_LOAD_IN_PROGRESS", "times": 1, "whole": True},
    "begin": {"api": "InitProducerId", "error": "COORDINATOR_LOAD_IN_PROGRESS", "times": 2},
    "add": {"api": "AddOffsetsToTxn", "error": "COORDINATOR_LOAD_IN_PROGRESS", "times": 2, "every": 2},
    "commit": {"api": "TxnOffsetCommit", "error": "COORDINATOR_LOAD_IN_PROGRESS", "times": 2},
    "end": {"api": "EndTxn", "error": "COORDINATOR_LOAD_IN_PROGRESS", "times": 2, "skip": 1},
    "write": {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "times": 2, "skip": 2},
    "lost-answer": {"api": "Produce", "answer": "close", "after": True, "times": 1, "skip": 5},
    "slow": {"api": ["Produce", "EndTxn", "Fetch"], "delay_ms": {"min": 1, "max": 20}, "probability": 0.3},
}
"""Errors, delays and closed connections. Each rule with `times` hits so often in the story below."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[ServerProcess]:
    configs = {"group.initial.rebalance.delay.ms": 0, "transaction.state.log.num.partitions": 5}
    with ServerProcess(brokers=3, seed=7, control=True, configs=configs, warm=True) as running:
        yield running


class Confluent:
    """A read-process-write loop of confluent-kafka."""

    def __init__(self, servers: str, name: str, topic: str) -> None:
        self._name, self._topic = name, topic
        self.group = f"group-{name}"
        self._consumer = Consumer({
            "bootstrap.servers": servers, "group.id": self.group, "auto.offset.reset": "earliest",
            "enable.auto.commit": False, "isolation.level": "read_committed", "client.id": name,
        })  # fmt: skip
        self._producer = Producer({
            "bootstrap.servers": servers, "transactional.id": name, "client.id": name, "retry.backoff.ms": 20,
        })  # fmt: skip

    def run(self, out: str, between: Callable[[int], None]) -> None:
        """Copy the records to another topic; `between` is called with the number of the transaction."""
        self._consumer.subscribe([self._topic])  # only now, so that the group is joined under the rules of the test
        _repeated(lambda: self._producer.init_transactions(SECONDS))
        done = number = 0
        while done < RECORDS:
            read = [one for one in self._consumer.consume(BATCH, timeout=0.2) if not one.error()]
            if not read:
                continue
            number += 1
            between(number)
            done += self._write(read, out)

    def _write(self, read: list[Any], out: str) -> int:
        self._producer.begin_transaction()
        try:
            for one in read:
                self._producer.produce(out, one.value())
            ends = [TopicPartition(one.topic(), one.partition(), one.offset() + 1) for one in read[-1:]]
            metadata = self._consumer.consumer_group_metadata()
            _repeated(lambda: self._producer.send_offsets_to_transaction(ends, metadata, SECONDS))
            _repeated(lambda: self._producer.commit_transaction(SECONDS))
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            _repeated(lambda: self._producer.abort_transaction(SECONDS))
            self._consumer.seek(TopicPartition(read[0].topic(), read[0].partition(), read[0].offset()))
            return 0
        return len(read)

    def close(self) -> None:
        self._consumer.close()


def _repeated(call: Callable[[], None]) -> None:
    while True:
        try:
            return call()
        except KafkaException as error:
            if not error.args[0].retriable() or error.args[0].txn_requires_abort():
                raise


class Aio:
    """The same of aiokafka."""

    def __init__(self, servers: str, name: str, topic: str) -> None:
        self._servers, self._name, self._topic = servers, name, topic
        self.group = f"group-{name}"

    def run(self, out: str, between: Callable[[int], None]) -> None:
        asyncio.run(self._copy(out, between))

    async def _copy(self, out: str, between: Callable[[int], None]) -> None:
        consumer = AIOKafkaConsumer(
            self._topic, bootstrap_servers=self._servers, group_id=self.group, auto_offset_reset="earliest",
            enable_auto_commit=False, isolation_level="read_committed", client_id=self._name,
        )  # fmt: skip
        producer = AIOKafkaProducer(
            bootstrap_servers=self._servers, transactional_id=self._name, client_id=self._name, retry_backoff_ms=20
        )
        await consumer.start()
        await producer.start()
        try:
            done = number = 0
            while done < RECORDS:
                found = await consumer.getmany(timeout_ms=1000, max_records=BATCH)
                read = [one for records in found.values() for one in records]
                if not read:
                    continue
                number += 1
                await asyncio.to_thread(between, number)
                done += await self._write(consumer, producer, read, out)
        finally:
            await producer.stop()
            await consumer.stop()

    async def _write(self, consumer: Any, producer: Any, read: list[Any], out: str) -> int:
        at = AioPartition(read[0].topic, read[0].partition)
        try:
            async with producer.transaction():
                for one in read:
                    await producer.send_and_wait(out, one.value)
                await producer.send_offsets_to_transaction({at: read[-1].offset + 1}, self.group)
        except AioKafkaError:
            consumer.seek(at, read[0].offset)
            return 0
        return len(read)

    def close(self) -> None:
        """Everything is closed already."""


@pytest.fixture(params=[Confluent, Aio], ids=["confluent", "aiokafka"])
def story(request: pytest.FixtureRequest, cluster: ServerProcess, topic_name: str) -> Iterator[tuple[Any, str]]:
    cluster.create_topic(topic_name, 1, 3)
    cluster.create_topic(f"{topic_name}-out", 1, 3)
    writer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(RECORDS):
        writer.produce(topic_name, str(number).encode(), partition=0)
    assert writer.flush(SECONDS) == 0
    made = request.param(cluster.bootstrap_servers, f"{request.param.__name__}-{topic_name}", topic_name)
    yield made, f"{topic_name}-out"
    made.close()
    cluster.remove_faults()


def copied(cluster: ServerProcess, out: str) -> list[bytes | None]:
    return [record.value for record in cluster.records(out, isolation_level="read_committed")]


EVERY_RECORD_ONCE = [str(number).encode() for number in range(RECORDS)]


def test_groups_and_transactions_go_on_while_their_coordinators_move(
    cluster: ServerProcess, story: tuple[Any, str]
) -> None:
    client, out = story
    moved: list[int] = []

    def rehash(number: int) -> None:
        if number % 2 == 0:
            moved.append(cluster.rehash_coordinators(("groups", "transactions", None)[number // 2 % 3]))

    client.run(out, rehash)
    assert len(moved) >= 3
    assert all(moved)
    assert copied(cluster, out) == EVERY_RECORD_ONCE
    refused = {error["error_code"] for one in cluster.requests() for error in one.errors}
    assert 16 in refused, "a client has met NOT_COORDINATOR"


def test_a_storm_of_rules_changes_no_count(cluster: ServerProcess, story: tuple[Any, str]) -> None:
    client, out = story
    rules = {
        name: cluster.add_fault(id=name, client_id=f"*{out.removesuffix('-out')}", **rule)
        for name, rule in STORM.items()
    }
    client.run(out, lambda _: None)
    assert copied(cluster, out) == EVERY_RECORD_ONCE
    hits = {name: cluster.fault(rule).hits for name, rule in rules.items()}
    wanted = {name: rule.get("times") for name, rule in STORM.items()}
    assert {name: hits[name] for name, times in wanted.items() if times is not None} == {
        name: times for name, times in wanted.items() if times is not None
    }
    assert hits["slow"] > 0
