"""What a story asks of a client library, and how each library is asked: one class per library, no decisions in it.

Refusals are the library's own exceptions. Where a library answers with a code instead, the exception is made by the
library's own table of errors, as its users do.
"""

import asyncio
import gc
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewPartitions as AioNewPartitions
from aiokafka.admin import NewTopic as AioNewTopic
from aiokafka.admin.config_resource import ConfigResource as AioResource
from aiokafka.admin.config_resource import ConfigResourceType as AioResourceType
from aiokafka.errors import BrokerResponseError as AioBrokerResponseError
from aiokafka.errors import InvalidReplicationFactorError as AioInvalidReplicationFactorError
from aiokafka.errors import PolicyViolationError as AioPolicyViolationError
from aiokafka.errors import for_code
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from kafka.admin import ConfigResource as PythonResource
from kafka.admin import ConfigResourceType as PythonResourceType
from kafka.admin import KafkaAdminClient
from kafka.errors import BrokerResponseError, InvalidReplicationFactorError, PolicyViolationError

SECONDS = 20.0
LIMIT = "max.broker.partitions"
BROKER_IDS = (1, 2, 3)
TOO_FEW_BROKERS, POLICY = 38, 44

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Row:
    """A partition as the library shows it."""

    leader: int
    replicas: list[int]
    isr: list[int]


class StoryClient(Protocol):
    """A library's admin client, asked for one thing at a time."""

    @property
    def refusals(self) -> dict[int, type[Exception]]:
        """The library's own exceptions for INVALID_REPLICATION_FACTOR and POLICY_VIOLATION."""

    def create(self, topic_name: str, partitions: int, replication_factor: int) -> None: ...
    def enlarge(self, topic_name: str, partitions: int) -> None: ...
    def rows(self, topic_name: str) -> list[Row]: ...
    def replicas_by_another_call(self, topic_name: str) -> list[list[int]]: ...
    def topic_names(self) -> set[str]: ...
    def configure_brokers(self, configs: dict[str, str | None]) -> None:
        """Give every broker these values of its own, and no others; those that are None are to be deleted."""

    def shown_limits(self) -> set[str]: ...
    def topic_config(self, topic_name: str, key: str) -> str: ...
    def delete(self, topic_name: str) -> None: ...
    def close(self) -> None: ...
    def look_again(self, bootstrap_servers: str) -> None:
        """What a program has to do with the client when a broker has gone or come; these are there."""

    def code_and_text_of(self, error: Exception) -> tuple[int, str]:
        """What the exception says."""


class ConfluentKafka:
    """Limits are set broker by broker, as in the other libraries."""

    refusals: ClassVar[dict[int, type[Exception]]] = {TOO_FEW_BROKERS: KafkaException, POLICY: KafkaException}

    def __init__(self, bootstrap_servers: str) -> None:
        # What librdkafka writes to stderr when a broker goes is expected here.
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})

    def create(self, topic_name: str, partitions: int, replication_factor: int) -> None:
        self._admin.create_topics([NewTopic(topic_name, partitions, replication_factor)])[topic_name].result(SECONDS)

    def enlarge(self, topic_name: str, partitions: int) -> None:
        self._admin.create_partitions([NewPartitions(topic_name, partitions)])[topic_name].result(SECONDS)

    def rows(self, topic_name: str) -> list[Row]:
        topic = self._admin.describe_topics(TopicCollection([topic_name]))[topic_name].result(SECONDS)
        return [
            Row(p.leader.id, [node.id for node in p.replicas], [node.id for node in p.isr]) for p in topic.partitions
        ]

    def replicas_by_another_call(self, topic_name: str) -> list[list[int]]:
        listed = self._admin.list_topics(topic_name, timeout=SECONDS).topics[topic_name].partitions
        assert [partition.error for partition in listed.values()] == [None] * len(listed)
        return [listed[index].replicas for index in range(len(listed))]

    def topic_names(self) -> set[str]:
        return set(self._admin.list_topics(timeout=SECONDS).topics)

    def configure_brokers(self, configs: dict[str, str | None]) -> None:
        entries = [
            ConfigEntry(
                name, value, incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
            )
            for name, value in configs.items()
        ]
        for broker_id in BROKER_IDS:
            resource = ConfigResource(ResourceType.BROKER, str(broker_id), incremental_configs=entries)
            self._admin.incremental_alter_configs([resource])[resource].result(SECONDS)

    def shown_limits(self) -> set[str]:
        resources = [ConfigResource(ResourceType.BROKER, str(broker_id)) for broker_id in BROKER_IDS]
        asked = [self._admin.describe_configs([resource])[resource] for resource in resources]
        return {answer.result(SECONDS)[LIMIT].value for answer in asked}

    def topic_config(self, topic_name: str, key: str) -> str:
        resource = ConfigResource(ResourceType.TOPIC, topic_name)
        value: str = self._admin.describe_configs([resource])[resource].result(SECONDS)[key].value
        return value

    def delete(self, topic_name: str) -> None:
        self._admin.delete_topics([topic_name])[topic_name].result(SECONDS)

    def close(self) -> None:
        pass  # it ends with its object

    def look_again(self, bootstrap_servers: str) -> None:
        # It waits for the controller that it last saw, and looks of itself every five minutes only.
        self._admin.list_topics(timeout=SECONDS)

    def code_and_text_of(self, error: Exception) -> tuple[int, str]:
        return error.args[0].code(), error.args[0].str()


class KafkaPython:
    """Limits are set broker by broker: this library knows no resource for all of them."""

    refusals: ClassVar = {TOO_FEW_BROKERS: InvalidReplicationFactorError, POLICY: PolicyViolationError}

    def __init__(self, bootstrap_servers: str) -> None:
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers.split(","))

    def create(self, topic_name: str, partitions: int, replication_factor: int) -> None:
        counts = {"num_partitions": partitions, "replication_factor": replication_factor}
        self._admin.create_topics({topic_name: counts})

    def enlarge(self, topic_name: str, partitions: int) -> None:
        self._admin.create_partitions({topic_name: partitions})

    def rows(self, topic_name: str) -> list[Row]:
        (topic,) = self._admin.describe_topics([topic_name])
        return [Row(p["leader_id"], p["replica_nodes"], p["isr_nodes"]) for p in topic["partitions"]]

    def replicas_by_another_call(self, topic_name: str) -> list[list[int]]:
        (topic,) = self._admin.describe_topic_partitions([topic_name])["topics"]
        return [partition["replica_nodes"] for partition in topic["partitions"]]

    def topic_names(self) -> set[str]:
        return set(self._admin.list_topics())

    def configure_brokers(self, configs: dict[str, str | None]) -> None:
        changes = {name: ("DELETE" if value is None else "SET", value) for name, value in configs.items()}
        resources = [
            PythonResource(PythonResourceType.BROKER, str(broker_id), configs=changes) for broker_id in BROKER_IDS
        ]
        answers = self._admin.alter_configs(resources, incremental=True)["broker"]
        assert answers == {str(broker_id): "OK" for broker_id in BROKER_IDS}

    def shown_limits(self) -> set[str]:
        resources = [PythonResource(PythonResourceType.BROKER, str(broker_id)) for broker_id in BROKER_IDS]
        shown = self._admin.describe_configs(resources, config_filter="all")["broker"]
        return {configs[LIMIT]["value"] for configs in shown.values()}

    def topic_config(self, topic_name: str, key: str) -> str:
        resource = PythonResource(PythonResourceType.TOPIC, topic_name)
        shown = self._admin.describe_configs([resource], config_filter="all")
        value: str = shown["topic"][topic_name][key]["value"]
        return value

    def delete(self, topic_name: str) -> None:
        self._admin.delete_topics([topic_name])

    def close(self) -> None:
        self._admin.close()
        del self._admin
        gc.collect()  # a refused connection costs it an unclosed socket; no other test is to be told of it

    def look_again(self, bootstrap_servers: str) -> None:
        # It sends to the controller that it saw first, for ever.
        self.close()
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers.split(","))

    def code_and_text_of(self, error: Exception) -> tuple[int, str]:
        assert isinstance(error, BrokerResponseError)
        return error.errno, str(error)


class Aiokafka:
    """Limits are set broker by broker, as all that a broker has of its own: IncrementalAlterConfigs is missing."""

    refusals: ClassVar = {TOO_FEW_BROKERS: AioInvalidReplicationFactorError, POLICY: AioPolicyViolationError}

    def __init__(self, bootstrap_servers: str) -> None:
        self._runner = asyncio.Runner()
        self._admin = self._start(bootstrap_servers)

    def _start(self, bootstrap_servers: str) -> AIOKafkaAdminClient:
        admin = self._run(self._make(bootstrap_servers))
        self._run(admin.start())
        return admin

    @staticmethod
    async def _make(bootstrap_servers: str) -> AIOKafkaAdminClient:
        return AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(call)

    def create(self, topic_name: str, partitions: int, replication_factor: int) -> None:
        answer: Any = self._run(self._admin.create_topics([AioNewTopic(topic_name, partitions, replication_factor)]))
        ((_, code, message),) = answer.topic_errors
        if code:
            raise for_code(code)(message)

    def enlarge(self, topic_name: str, partitions: int) -> None:
        self._run(self._admin.create_partitions({topic_name: AioNewPartitions(partitions)}))

    def rows(self, topic_name: str) -> list[Row]:
        return self._rows(self._run(self._admin.describe_topics([topic_name])), topic_name)

    def replicas_by_another_call(self, topic_name: str) -> list[list[int]]:
        return [row.replicas for row in self._rows(self._run(self._admin.describe_topics()), topic_name)]

    @staticmethod
    def _rows(topics: list[Any], topic_name: str) -> list[Row]:
        by_name = {topic["topic"]: topic for topic in topics}
        partitions = sorted(by_name[topic_name]["partitions"], key=lambda partition: int(partition["partition"]))
        return [Row(p["leader"], list(p["replicas"]), list(p["isr"])) for p in partitions]

    def topic_names(self) -> set[str]:
        return set(self._run(self._admin.list_topics()))

    def configure_brokers(self, configs: dict[str, str | None]) -> None:
        kept = {name: value for name, value in configs.items() if value is not None}
        resources = [AioResource(AioResourceType.BROKER, str(broker_id), configs=kept) for broker_id in BROKER_IDS]
        answers: Any = self._run(self._admin.alter_configs(resources))
        assert sorted(r[3] for answer in answers for r in answer.resources if r[0] == 0) == sorted(map(str, BROKER_IDS))

    def shown_limits(self) -> set[str]:
        resources = [AioResource(AioResourceType.BROKER, str(broker_id)) for broker_id in BROKER_IDS]
        answers: Any = self._run(self._admin.describe_configs(resources))
        return {entry[1] for answer in answers for r in answer.resources for entry in r[4] if entry[0] == LIMIT}

    def topic_config(self, topic_name: str, key: str) -> str:
        (answer,) = self._run(self._admin.describe_configs([AioResource(AioResourceType.TOPIC, topic_name)]))
        resources: Any = answer.resources
        (value,) = (entry[1] for entry in resources[0][4] if entry[0] == key)
        return str(value)

    def delete(self, topic_name: str) -> None:
        answer: Any = self._run(self._admin.delete_topics([topic_name]))
        ((_, code),) = answer.topic_error_codes
        if code:
            raise for_code(code)(topic_name)

    def close(self) -> None:
        self._run(self._admin.close())
        self._runner.close()

    def look_again(self, bootstrap_servers: str) -> None:
        # It sends to the brokers that it saw first, and looks of itself every five minutes only.
        self._run(self._admin.close())
        self._admin = self._start(bootstrap_servers)

    def code_and_text_of(self, error: Exception) -> tuple[int, str]:
        assert isinstance(error, AioBrokerResponseError)
        return error.errno, str(error)
