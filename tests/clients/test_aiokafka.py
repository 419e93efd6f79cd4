"""aiokafka: old versions of every API over asyncio; most errors come as codes in the answer."""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import InvalidPartitionsError, InvalidTopicError, for_code

from klamm.cluster.server_process import ServerProcess
from tests.clients.conftest import DEFAULT_REPLICATION_FACTOR, NUM_PARTITIONS, RACKS

T = TypeVar("T")


class BlockingAdmin:
    """The client, one call at a time."""

    def __init__(self, bootstrap_servers: str, runner: asyncio.Runner) -> None:
        self._runner = runner
        self.client = self.run(self._make(bootstrap_servers))
        self.run(self.client.start())

    @staticmethod
    async def _make(bootstrap_servers: str) -> AIOKafkaAdminClient:
        return AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(call)

    def create(self, topic: NewTopic, **options: Any) -> str:
        """The name of the error that the topic was answered with."""
        answer = self.run(self.client.create_topics([topic], **options))
        ((name, code, message),) = answer.topic_errors
        assert name == topic.name
        assert (message is None) == (code == 0)
        return str(for_code(code).__name__)

    def topic(self, topic_name: str) -> dict[str, Any]:
        # All topics, not the one: asked by name, this client asks to create what is not there.
        by_name = {topic["topic"]: topic for topic in self.run(self.client.describe_topics())}
        return dict(by_name[topic_name])

    def replicas(self, topic_name: str) -> list[list[int]]:
        by_index = sorted(self.topic(topic_name)["partitions"], key=lambda partition: partition["partition"])
        return [partition["replicas"] for partition in by_index]


@pytest.fixture(scope="module")
def admin(server: ServerProcess) -> Iterator[BlockingAdmin]:
    with asyncio.Runner() as runner:
        blocking = BlockingAdmin(server.bootstrap_servers, runner)
        yield blocking
        blocking.run(blocking.client.close())


def test_a_topic_has_the_counts_that_were_asked_for(admin: BlockingAdmin, topic_name: str) -> None:
    assert admin.create(NewTopic(topic_name, 4, 2)) == "NoError"
    topic = admin.topic(topic_name)
    assert [len(row) for row in admin.replicas(topic_name)] == [2] * 4
    assert all(partition["leader"] == partition["replicas"][0] for partition in topic["partitions"])
    assert all(sorted(partition["isr"]) == sorted(partition["replicas"]) for partition in topic["partitions"])


def test_replicas_are_where_they_were_put(admin: BlockingAdmin, topic_name: str) -> None:
    wanted = {0: [3, 1], 1: [2, 3]}
    assert admin.create(NewTopic(topic_name, -1, -1, replica_assignments=wanted)) == "NoError"
    assert admin.replicas(topic_name) == list(wanted.values())


def test_an_enlarged_topic_keeps_its_old_partitions(admin: BlockingAdmin, topic_name: str) -> None:
    admin.create(NewTopic(topic_name, 2, 2))
    before = admin.replicas(topic_name)
    admin.run(admin.client.create_partitions({topic_name: NewPartitions(4, [[1, 3], [2, 1]])}))
    assert admin.replicas(topic_name) == [*before, [1, 3], [2, 1]]


def test_a_deleted_topic_is_gone(admin: BlockingAdmin, topic_name: str) -> None:
    admin.create(NewTopic(topic_name, 1, 1))
    for expected in (0, 3):
        answer: Any = admin.run(admin.client.delete_topics([topic_name]))
        assert [tuple(topic) for topic in answer.topic_error_codes] == [(topic_name, expected)]
    assert topic_name not in admin.run(admin.client.list_topics())


def test_describing_a_topic_that_is_not_there_creates_it(admin: BlockingAdmin, topic_name: str) -> None:
    """Metadata from this client allows auto-creation; the first answer tells 3, then the topic is there."""
    assert [topic["error_code"] for topic in admin.run(admin.client.describe_topics([topic_name]))] == [3]
    assert [len(row) for row in admin.replicas(topic_name)] == [DEFAULT_REPLICATION_FACTOR] * NUM_PARTITIONS


def test_a_topic_that_is_only_validated_is_not_made(admin: BlockingAdmin, topic_name: str) -> None:
    assert admin.create(NewTopic(topic_name, 1, 1), validate_only=True) == "NoError"
    assert topic_name not in admin.run(admin.client.list_topics())


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (NewTopic("no/name", 1, 1), "InvalidTopicError"),
        (NewTopic("no-partitions", 0, 1), "InvalidPartitionsError"),
        (NewTopic("too-many-replicas", 1, 4), "InvalidReplicationFactorError"),
        (NewTopic("unknown-broker", -1, -1, {0: [1, 9]}), "InvalidReplicationAssignmentError"),
        (NewTopic("bad-config", 1, 1, topic_configs={"retention.ms": "soon"}), "InvalidConfigurationError"),
    ],
    ids=lambda value: value.name if isinstance(value, NewTopic) else "",
)
def test_a_refused_topic_is_answered_with_its_error_and_not_made(
    admin: BlockingAdmin, topic: NewTopic, error: str
) -> None:
    assert admin.create(topic) == error
    assert topic.name not in admin.run(admin.client.list_topics())


def test_a_topic_is_not_made_twice(admin: BlockingAdmin, topic_name: str) -> None:
    assert admin.create(NewTopic(topic_name, 1, 1)) == "NoError"
    assert admin.create(NewTopic(topic_name, 1, 1)) == "TopicAlreadyExistsError"


def test_errors_on_enlarging_are_raised(admin: BlockingAdmin, topic_name: str) -> None:
    admin.create(NewTopic(topic_name, 3, 1))
    with pytest.raises(InvalidPartitionsError):
        admin.run(admin.client.create_partitions({topic_name: NewPartitions(2)}))
    with pytest.raises(InvalidTopicError):
        admin.run(admin.client.create_partitions({f"no-{topic_name}": NewPartitions(2)}))


def test_configs_of_topics_and_brokers_are_told(admin: BlockingAdmin, topic_name: str) -> None:
    admin.create(NewTopic(topic_name, 1, 1, topic_configs={"retention.ms": "1234"}))
    resources = [ConfigResource(ConfigResourceType.BROKER, "2"), ConfigResource(ConfigResourceType.TOPIC, topic_name)]
    answers: Any = admin.run(admin.client.describe_configs(resources))
    values = {
        (name, entry[0]): entry[1]
        for answer in answers
        for code, _, _, name, entries in answer.resources
        for entry in entries
        if code == 0
    }
    assert values[("2", "num.partitions")] == str(NUM_PARTITIONS)
    assert values[(topic_name, "retention.ms")] == "1234"
    assert values[(topic_name, "cleanup.policy")] == "delete"


def test_the_cluster_is_described_with_its_racks(admin: BlockingAdmin, server: ServerProcess) -> None:
    cluster = admin.run(admin.client.describe_cluster())
    brokers = sorted(cluster["brokers"], key=lambda broker: broker["node_id"])
    assert {broker["node_id"]: broker["rack"] for broker in brokers} == RACKS
    assert ",".join(f"{broker['host']}:{broker['port']}" for broker in brokers) == server.bootstrap_servers
    assert cluster["controller_id"] in RACKS
