"""Real clients alter configs of topics and brokers, ours among them, and are told what is refused."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioNewTopic
from aiokafka.admin.config_resource import ConfigResource as AioResource
from aiokafka.admin.config_resource import ConfigResourceType as AioResourceType
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)
from kafka.admin import ConfigResource as PythonResource
from kafka.admin import ConfigResourceType as PythonResourceType
from kafka.admin import KafkaAdminClient

from klamm.cluster.server_process import ServerProcess

SECONDS = 20.0
LIMIT = "max.broker.partitions"


class Confluent:
    """librdkafka's admin client, asked for single results."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.client = AdminClient({"bootstrap.servers": bootstrap_servers})

    def create(self, topic_name: str) -> None:
        self.client.create_topics([NewTopic(topic_name, 1, 1)])[topic_name].result(SECONDS)

    def alter(self, kind: ResourceType, name: str, *entries: tuple[str, AlterConfigOpType, str | None]) -> None:
        resource = ConfigResource(
            kind,
            name,
            incremental_configs=[
                ConfigEntry(key, value, incremental_operation=operation) for key, operation, value in entries
            ],
        )
        self.client.incremental_alter_configs([resource])[resource].result(SECONDS)

    def configs(self, kind: ResourceType, name: str) -> Any:
        resource = ConfigResource(kind, name)
        return self.client.describe_configs([resource])[resource].result(SECONDS)


@pytest.fixture(scope="module")
def confluent(server: ServerProcess) -> Confluent:
    return Confluent(server.bootstrap_servers)


@pytest.fixture(scope="module")
def kafka_python(server: ServerProcess) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=server.bootstrap_servers.split(","))
    yield client
    client.close()


SET, DELETE, APPEND, SUBTRACT = (
    AlterConfigOpType.SET,
    AlterConfigOpType.DELETE,
    AlterConfigOpType.APPEND,
    AlterConfigOpType.SUBTRACT,
)


def test_confluent_kafka_sets_deletes_appends_and_subtracts(confluent: Confluent, topic_name: str) -> None:
    confluent.create(topic_name)
    topic = (ResourceType.TOPIC, topic_name)
    confluent.alter(*topic, ("retention.ms", SET, "1000"), ("cleanup.policy", APPEND, "compact"))
    configs = confluent.configs(*topic)
    assert configs["retention.ms"].value == "1000"
    assert configs["cleanup.policy"].value == "delete,compact"
    assert configs["cleanup.policy"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    confluent.alter(*topic, ("retention.ms", DELETE, None), ("cleanup.policy", SUBTRACT, "delete"))
    configs = confluent.configs(*topic)
    assert configs["retention.ms"].source == ConfigSource.DEFAULT_CONFIG.value
    assert configs["cleanup.policy"].value == "compact"


def test_confluent_kafka_sets_a_limit_on_one_broker_and_sees_where_it_comes_from(confluent: Confluent) -> None:
    broker = (ResourceType.BROKER, "2")
    confluent.alter(*broker, (LIMIT, SET, "4000"))
    entry = confluent.configs(*broker)[LIMIT]
    assert (entry.value, entry.source) == ("4000", ConfigSource.DYNAMIC_BROKER_CONFIG.value)
    assert list(entry.synonyms) == [LIMIT]
    assert confluent.configs(ResourceType.BROKER, "1")[LIMIT].source == ConfigSource.DEFAULT_CONFIG.value
    confluent.alter(*broker, (LIMIT, DELETE, None))
    assert confluent.configs(*broker)[LIMIT].value == str(2**63 - 1)


@pytest.mark.parametrize(
    ("kind", "entry", "code", "said"),
    [
        (ResourceType.BROKER, (LIMIT, SET, "0"), KafkaError.INVALID_REQUEST, "Value must be at least 1"),
        (ResourceType.BROKER, ("num.partitions", SET, "5"), KafkaError.INVALID_REQUEST, "Cannot update these configs"),
        (ResourceType.TOPIC, ("retention.ms", SET, "soon"), KafkaError.INVALID_CONFIG, "Not a number of type LONG"),
        (ResourceType.TOPIC, ("retention.ms", APPEND, "5"), KafkaError.INVALID_CONFIG, "its type is not LIST"),
        (ResourceType.TOPIC, ("no.such", SET, "5"), KafkaError.INVALID_CONFIG, "Unknown topic config name"),
    ],
)
def test_confluent_kafka_raises_what_is_refused_with_its_reason(
    confluent: Confluent,
    topic_name: str,
    kind: ResourceType,
    entry: tuple[str, AlterConfigOpType, str],
    code: int,
    said: str,
) -> None:
    confluent.create(topic_name)
    with pytest.raises(KafkaException) as raised:
        confluent.alter(kind, "1" if kind is ResourceType.BROKER else topic_name, entry)
    error = raised.value.args[0]
    assert error.code() == code
    assert said in error.str()


def test_kafka_python_alters_topics_brokers_and_the_defaults_of_all(
    kafka_python: KafkaAdminClient, topic_name: str
) -> None:
    kafka_python.create_topics({topic_name: {"num_partitions": 1, "replication_factor": 1}})
    topic = PythonResource(PythonResourceType.TOPIC, topic_name, configs={"retention.ms": "1000"})
    broker = PythonResource(PythonResourceType.BROKER, "3", configs={"max.partitions": ("SET", "77")})
    kafka_python.alter_configs([topic, broker], incremental=True)
    assert listed(kafka_python, topic)["retention.ms"]["value"] == "1000"
    shown = listed(kafka_python, broker)["max.partitions"]
    assert (shown["value"], shown["config_source"]) == ("77", "DYNAMIC_BROKER_CONFIG")
    topic = PythonResource(PythonResourceType.TOPIC, topic_name, configs={"flush.ms": "5"})
    kafka_python.alter_configs([topic], incremental=False, raise_on_unknown=False)
    assert listed(kafka_python, topic)["flush.ms"]["value"] == "5"
    kafka_python.alter_configs(
        [PythonResource(PythonResourceType.BROKER, "3", configs={"max.partitions": ("DELETE", None)})], incremental=True
    )
    assert listed(kafka_python, broker)["max.partitions"]["config_source"] == "DEFAULT_CONFIG"


def listed(admin: KafkaAdminClient, resource: PythonResource) -> Any:
    described = admin.describe_configs([resource], include_synonyms=True, config_filter="all")
    return described[resource.resource_type.name.lower()][resource.name]


def test_kafka_python_is_told_what_is_refused(kafka_python: KafkaAdminClient) -> None:
    wrong = PythonResource(PythonResourceType.BROKER, "1", configs={LIMIT: "none"})
    refusal = kafka_python.alter_configs([wrong], incremental=True)["broker"]["1"]
    assert refusal == (
        f"[Error 42] InvalidRequestError: Invalid value none for configuration {LIMIT}: Not a number of type LONG"
    )


def test_kafka_python_lists_what_has_configs(kafka_python: KafkaAdminClient, topic_name: str) -> None:
    kafka_python.create_topics({topic_name: {"num_partitions": 1, "replication_factor": 1}})
    assert topic_name in str(kafka_python.list_config_resources())


def test_aiokafka_replaces_all_configs_of_a_topic_and_of_a_broker(server: ServerProcess, topic_name: str) -> None:
    with asyncio.Runner() as runner:
        runner.run(_replace_with_aiokafka(server.bootstrap_servers, topic_name))


async def _replace_with_aiokafka(bootstrap_servers: str, topic_name: str) -> None:
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await client.start()
    try:
        await client.create_topics([AioNewTopic(topic_name, 1, 1, topic_configs={"flush.ms": "5"})])
        topic = AioResource(AioResourceType.TOPIC, topic_name, configs={"retention.ms": "1000"})
        broker = AioResource(AioResourceType.BROKER, "2", configs={"max.partitions": "88"})
        answers: Any = await client.alter_configs([topic, broker])
        assert sorted((r[3], r[0]) for answer in answers for r in answer.resources) == [("2", 0), (topic_name, 0)]
        whole = [AioResource(AioResourceType.TOPIC, topic_name), AioResource(AioResourceType.BROKER, "2")]
        described: Any = await client.describe_configs(whole)
        values = {(r[3], entry[0]): entry[1] for answer in described for r in answer.resources for entry in r[4]}
        assert values[(topic_name, "retention.ms")] == "1000"
        assert values[(topic_name, "flush.ms")] == str(2**63 - 1)
        assert values[("2", "max.partitions")] == "88"
        await client.alter_configs([AioResource(AioResourceType.BROKER, "2", configs={})])
        described = await client.describe_configs(whole)
        values = {(r[3], entry[0]): entry[1] for answer in described for r in answer.resources for entry in r[4]}
        assert values[("2", "max.partitions")] == str(2**63 - 1)
    finally:
        await client.close()
