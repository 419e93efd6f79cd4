"""What clients are told about one partition: to wait, to begin elsewhere, that too few replicas are in sync."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from klamm.cluster.server_process import ServerProcess
from tests.clients.single_partition import (
    CLIENT_ID,
    SECONDS,
    AiokafkaPartition,
    ConfluentPartition,
    KafkaPythonPartition,
    SinglePartition,
)

FETCH_WAIT_MS = 60_000
MOST_FETCHES = 6
NOT_ENOUGH_REPLICAS = 19
LIBRARIES = [
    ConfluentPartition,
    pytest.param(KafkaPythonPartition, marks=pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")),
    AiokafkaPartition,
]


@pytest.fixture(scope="module")
def request_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server") / "requests.jsonl"


@pytest.fixture(scope="module")
def cluster(request_log: Path) -> Iterator[ServerProcess]:
    with ServerProcess(
        "--brokers", "3", "--request-log", str(request_log), "--seed", "7", control=True, warm=True
    ) as process:
        yield process


@pytest.fixture
def admin(cluster: ServerProcess, topic_name: str) -> AdminClient:
    """The topic has one partition, and its writers need three replicas in sync."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    topic = NewTopic(topic_name, 1, 3, config={"min.insync.replicas": "3"})
    admin.create_topics([topic])[topic_name].result(SECONDS)
    return admin


@pytest.fixture
def partition(
    library: type[SinglePartition],
    cluster: ServerProcess,
    admin: AdminClient,
    topic_name: str,
    without_refusals_in_log: None,
) -> Iterator[SinglePartition]:
    made = library(cluster.bootstrap_servers, topic_name)
    yield made
    made.close()


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_idle_reader_waits_in_few_requests_and_is_woken_by_a_record(
    partition: SinglePartition, request_log: Path
) -> None:
    fetches_before = fetches_in(request_log)
    partition.write(b"first", "all")
    partition.assign(0, None, FETCH_WAIT_MS)
    assert partition.read(SECONDS) == (0, b"first")
    assert partition.read(0.2) is None
    for number in range(1, 3):
        started = time.monotonic()
        partition.write(b"%d" % number, "all")
        assert partition.read(SECONDS) == (number, b"%d" % number)
        assert time.monotonic() - started < FETCH_WAIT_MS / 1000 / 2
    assert fetches_in(request_log) - fetches_before <= MOST_FETCHES


def code_of(error: Exception) -> Any:
    """What confluent-kafka's one exception holds, and the others have by their type."""
    return error.args[0].code() if isinstance(error, KafkaException) else vars(type(error))["errno"]


def fetches_in(request_log: Path) -> int:
    lines = map(json.loads, request_log.read_text(encoding="utf-8").splitlines())
    return sum(line["api"] == "Fetch" and line["client_id"] == CLIENT_ID for line in lines)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_reader_out_of_range_begins_where_it_wants_or_is_told(
    partition: SinglePartition, admin: AdminClient, topic_name: str
) -> None:
    for number in range(5):
        partition.write(b"%d" % number, "all")
    (deleted,) = admin.delete_records([TopicPartition(topic_name, 0, 3)]).values()
    assert deleted.result(SECONDS).low_watermark == 3
    for offset in (0, 1000):
        partition.assign(offset, "earliest")
        assert partition.read(SECONDS) == (3, b"3")
        partition.assign(offset, None)
        with pytest.raises(partition.out_of_range) as raised:
            partition.read(SECONDS)
        assert code_of(raised.value) == partition.out_of_range_code
    partition.assign(3, None)
    assert partition.read(SECONDS) == (3, b"3")


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_writer_that_asks_for_all_is_refused_while_too_few_replicas_are_in_sync(
    partition: SinglePartition, cluster: ServerProcess
) -> None:
    assert partition.write(b"0", "all") == 0
    cluster.stop_broker(3)
    try:
        with pytest.raises(partition.not_enough_replicas) as raised:
            partition.write(b"refused", "all")
        assert code_of(raised.value) == NOT_ENOUGH_REPLICAS
        assert partition.write(b"1", 1) == 1
    finally:
        cluster.start_broker(3)
    partition.assign(0, None)
    assert [partition.read(SECONDS), partition.read(SECONDS)] == [(0, b"0"), (1, b"1")]
