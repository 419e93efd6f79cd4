"""Records are written and read while their leaders are moved away, shut down and crashed: none is lost or doubled.

Idempotent writers with acks=all, and a reader that assigns itself the partitions, go on all the while: whatever the
story waits for, it waits by writing and reading.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import trio

from klamm import AdminClient, NewTopic, PartitionDescription
from klamm.cluster.server_process import ServerProcess
from tests.clients.record_clients import (
    AiokafkaRecords,
    ConfluentRecords,
    KafkaPythonRecords,
    Placed,
    Record,
    RecordClient,
    move_with_kafka_python,
)

TOPIC = "moved"
WAIT_SECONDS = 60.0
REPLICATION_RATE = 2000
"""Records a second: what there is before a move takes a while to follow."""
FIRST_RECORDS = 2000
AT_ONCE, MOST_UNACKNOWLEDGED = 4, 200
HOME, AWAY = (1, 2, 3), (4, 3, 2)
Library = type[ConfluentRecords] | type[KafkaPythonRecords] | type[AiokafkaRecords]
LIBRARIES = [
    ConfluentRecords,
    pytest.param(KafkaPythonRecords, marks=pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")),
    AiokafkaRecords,
]


@pytest.fixture
def cluster() -> Iterator[ServerProcess]:
    arguments = ("--brokers", "4", "--racks", "a,b,c,d", "--replication-rate", str(REPLICATION_RATE), "--seed", "7")
    sessions = ("--set", "broker.session.timeout.ms=1000", "--set", "broker.heartbeat.interval.ms=200")
    with ServerProcess(*arguments, *sessions, control=True, warm=True) as process:
        yield process


@pytest.fixture
def client(library: Library, cluster: ServerProcess, without_refusals_in_log: None) -> Iterator[RecordClient]:
    topic = NewTopic(
        TOPIC,
        replica_assignments=dict.fromkeys(range(len(library.codecs)), HOME),
        configs={"min.insync.replicas": "2"},
    )
    (result,) = trio.run(ask, cluster.bootstrap_servers, lambda admin: admin.create_topics([topic]))
    result.raise_for_error()
    made = library(cluster.bootstrap_servers, TOPIC)
    yield made
    made.close()


class Traffic:
    """What a client wrote, and what it read, by partition."""

    def __init__(self, client: RecordClient) -> None:
        self.written: list[list[Record]] = [[] for _ in client.codecs]
        self.read: list[list[Placed]] = [[] for _ in client.codecs]
        self._client = client

    def write(self, records_of_each: int) -> None:
        for index, codec in enumerate(self._client.codecs):
            first = len(self.written[index])
            records = [
                Record(index, b"%d" % number, f"{codec} {number} ".encode() * 8)
                for number in range(first, first + records_of_each)
            ]
            self.written[index] += records
            self._client.write(records)

    def go_on_until(self, is_so: Callable[[], bool], writes: bool = True) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not is_so():
            assert time.monotonic() < deadline, (
                f"{self._unacknowledged()} are not acknowledged, {self._unread()} unread"
            )
            if writes and self._unacknowledged() < MOST_UNACKNOWLEDGED:
                self.write(AT_ONCE)
            for placed in self._client.read():
                self.read[placed.record.partition].append(placed)
            assert self._client.failed == []

    def finish(self) -> None:
        """Wait for all that is under way."""
        self.go_on_until(lambda: not self._unacknowledged() and not self._unread(), writes=False)

    def _unacknowledged(self) -> int:
        return sum(map(len, self.written)) - len(self._client.acknowledged)

    def _unread(self) -> int:
        return sum(map(len, self.written)) - sum(map(len, self.read))


class Story:
    """What is done to the cluster while there is traffic."""

    def __init__(self, server: ServerProcess, traffic: Traffic, move: Callable[..., None]) -> None:
        self._server = server
        self._traffic = traffic
        self._move = move
        self._partitions = range(len(traffic.written))

    def play(self) -> None:
        self._move_to(AWAY)
        for mode in ("shutdown", "crash"):
            self._control(partial(self._server.stop_broker, 4, mode))
            self._until(lambda row: row.leader == 3 and set(row.isr) == {2, 3})
            self._control(partial(self._server.start_broker, 4))
            self._until(lambda row: set(row.isr) == set(AWAY))
            self._ask(lambda admin: admin.elect_leaders([(TOPIC, index) for index in self._partitions]))
            self._until(lambda row: row.leader == 4)
        self._move_to(HOME)

    def _move_to(self, target: tuple[int, ...]) -> None:
        self._move(self._server.bootstrap_servers, dict.fromkeys(self._partitions, target))
        assert len(self._moves()) == len(self._partitions), "there was nothing to see of a move"
        self._traffic.go_on_until(lambda: not self._moves())
        self._until(lambda row: row.leader == target[0] and row.replicas == target and set(row.isr) == set(target))

    def _control(self, change: Callable[[], None]) -> None:
        with ThreadPoolExecutor(1) as pool:
            changed = pool.submit(change)
            self._traffic.go_on_until(changed.done)
            changed.result()

    def _until(self, is_so: Callable[[PartitionDescription], bool]) -> None:
        def looks_so() -> bool:
            (topic,) = self._ask(lambda admin: admin.metadata([TOPIC])).topics
            return all(map(is_so, topic.partitions))

        self._traffic.go_on_until(looks_so)

    def _moves(self) -> Any:
        return self._ask(lambda admin: admin.list_partition_reassignments())

    def _ask(self, question: Callable[[AdminClient], Any]) -> Any:
        return trio.run(ask, self._server.bootstrap_servers, question)


async def ask(bootstrap_servers: str, question: Callable[[AdminClient], Any]) -> Any:
    async with AdminClient(bootstrap_servers) as admin:
        return await question(admin)


def move(bootstrap_servers: str, targets: dict[int, tuple[int, ...]]) -> None:
    by_partition = {(TOPIC, index): replicas for index, replicas in targets.items()}
    for result in trio.run(ask, bootstrap_servers, lambda admin: admin.alter_partition_reassignments(by_partition)):
        result.raise_for_error()


@pytest.mark.parametrize("library", LIBRARIES)
def test_no_record_is_lost_or_doubled_while_leaders_move_stop_and_crash(
    library: Library, client: RecordClient, cluster: ServerProcess
) -> None:
    traffic = Traffic(client)
    traffic.write(FIRST_RECORDS)
    traffic.finish()
    Story(cluster, traffic, partial(move_with_kafka_python, TOPIC) if library is KafkaPythonRecords else move).play()
    traffic.finish()
    for index, written in enumerate(traffic.written):
        expected = list(map(Placed, range(len(written)), written))
        assert traffic.read[index] == expected
        assert [one for one in client.acknowledged if one.record.partition == index] == expected
