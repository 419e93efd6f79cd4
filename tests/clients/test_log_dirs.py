"""Log directories with real clients: they write on when a directory of a leader fails, and see where replicas are."""

from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient

from klamm.cluster.server_process import ServerProcess
from tests.clients.test_faults import SECONDS, Aio, Client, Confluent, values


@pytest.fixture(scope="module")
def cluster() -> Iterator[ServerProcess]:
    configs = {"broker.session.timeout.ms": 1000, "broker.heartbeat.interval.ms": 200}
    with ServerProcess(brokers=3, log_dirs=2, control=True, configs=configs, warm=True) as running:
        yield running


@pytest.fixture(params=[Confluent, Aio], ids=["confluent", "aiokafka"])
def client(request: pytest.FixtureRequest, cluster: ServerProcess) -> Iterator[Client]:
    made = request.param(cluster.bootstrap_servers)
    yield made
    made.close()


def directory_of(cluster: ServerProcess, broker_id: int, topic_name: str) -> str:
    """Where kafka-python finds the replica of the only partition."""
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    try:
        described: Any = admin.describe_log_dirs(brokers=[broker_id])
    finally:
        admin.close()
    results = described[broker_id] if isinstance(described, dict) else described
    found = [
        one["log_dir"]
        for one in _each(results)
        for topic in one["topics"]
        if topic["name"] == topic_name and topic["partitions"]
    ]
    assert len(found) == 1, described
    return str(found[0])


def _each(found: Any) -> Iterator[dict[str, Any]]:
    """The directories, however deep the client has them."""
    if isinstance(found, dict) and "log_dir" in found:
        yield found
    elif isinstance(found, dict):
        for inner in found.values():
            yield from _each(inner)
    elif isinstance(found, list | tuple):
        for inner in found:
            yield from _each(inner)


def test_a_client_goes_on_when_the_directory_of_the_leader_fails(
    cluster: ServerProcess, client: Client, topic_name: str
) -> None:
    cluster.create_topic(topic_name, 1, 3)
    client.write(topic_name, b"0")
    leader = cluster.leader(topic_name, 0)
    path = directory_of(cluster, leader, topic_name)
    cluster.take_log_dir_offline(leader, path)
    # The broker reports it with its next heartbeat.
    cluster.wait_until(lambda: cluster.leader(topic_name, 0) != leader, SECONDS)
    client.write(topic_name, b"1")
    assert client.read(topic_name, 2) == [b"0", b"1"]
    assert values(cluster, topic_name) == [b"0", b"1"]
    assert leader not in cluster.isr(topic_name, 0)
    cluster.repair_log_dir(leader, path)
    cluster.stop_broker(leader)
    cluster.start_broker(leader)
    cluster.wait_for_isr(topic_name, timeout_seconds=SECONDS)
    client.write(topic_name, b"2")
    assert values(cluster, topic_name) == [b"0", b"1", b"2"]
