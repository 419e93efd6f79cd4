"""Three client libraries for Apache Kafka behind one small interface, so that the demonstration can compare them.

This module imports nothing of Klamm. It converts the answers and errors of each library to common values, and hides no
difference between them.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Protocol

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewPartitions as AioNewPartitions
from aiokafka.admin import NewTopic as AioNewTopic
from aiokafka.admin.config_resource import ConfigResource as AioConfigResource
from aiokafka.admin.config_resource import ConfigResourceType as AioConfigResourceType
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic
from kafka.admin import ConfigResource as PythonConfigResource
from kafka.admin import ConfigResourceType as PythonConfigResourceType
from kafka.admin import KafkaAdminClient
from kafka.errors import BrokerResponseError

TIMEOUT_SECONDS = 20


@dataclass(frozen=True, slots=True)
class SeenPartition:
    """A partition as a client reports it."""

    partition_index: int
    leader: int
    replicas: tuple[int, ...]
    isr: frozenset[int]


Placement = tuple[SeenPartition, ...]


class StoryClient(Protocol):
    """What the demonstration needs of a client; `None` for a topic or config that the cluster does not have."""

    name: str

    def racks(self) -> dict[int, str | None]: ...
    def create(self, topic_name: str, partitions: int, replication_factor: int, configs: dict[str, str]) -> None: ...
    def create_assigned(self, topic_name: str, assignments: Sequence[Sequence[int]]) -> None: ...
    def refusal(self, topic_name: str, partitions: int, replication_factor: int) -> tuple[int, str]:
        """The error code and message of a refused creation; (0, "") if it succeeds."""

    def describe(self, topic_name: str) -> Placement | None: ...
    def config(self, topic_name: str, key: str) -> str | None: ...
    def enlarge(self, topic_name: str, total_count: int) -> None: ...
    def delete(self, topic_name: str) -> None: ...
    def close(self) -> None: ...


class ConfluentClient:
    """confluent-kafka: librdkafka, on which the clients of most languages are built."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.name = f"confluent-kafka {version('confluent-kafka')}"
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers})

    def racks(self) -> dict[int, str | None]:
        cluster = self._admin.describe_cluster(request_timeout=TIMEOUT_SECONDS).result(TIMEOUT_SECONDS)
        return {node.id: node.rack for node in cluster.nodes}

    def create(self, topic_name: str, partitions: int, replication_factor: int, configs: dict[str, str]) -> None:
        self._create(NewTopic(topic_name, partitions, replication_factor, config=configs))

    def create_assigned(self, topic_name: str, assignments: Sequence[Sequence[int]]) -> None:
        self._create(NewTopic(topic_name, len(assignments), replica_assignment=[list(row) for row in assignments]))

    def refusal(self, topic_name: str, partitions: int, replication_factor: int) -> tuple[int, str]:
        try:
            self._create(NewTopic(topic_name, partitions, replication_factor))
        except KafkaException as error:
            return error.args[0].code(), error.args[0].str()
        return 0, ""

    def describe(self, topic_name: str) -> Placement | None:
        topic = self._admin.list_topics(timeout=TIMEOUT_SECONDS).topics.get(topic_name)
        if topic is None:
            return None
        return tuple(
            SeenPartition(index, seen.leader, tuple(seen.replicas), frozenset(seen.isrs))
            for index, seen in sorted(topic.partitions.items())
        )

    def config(self, topic_name: str, key: str) -> str | None:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic_name)
        entries = self._admin.describe_configs([resource])[resource].result(TIMEOUT_SECONDS)
        return entries[key].value if key in entries else None

    def enlarge(self, topic_name: str, total_count: int) -> None:
        futures = self._admin.create_partitions([NewPartitions(topic_name, total_count)])
        futures[topic_name].result(TIMEOUT_SECONDS)

    def delete(self, topic_name: str) -> None:
        self._admin.delete_topics([topic_name])[topic_name].result(TIMEOUT_SECONDS)

    def close(self) -> None:
        # librdkafka closes its connections when nothing refers to the client any more.
        del self._admin

    def _create(self, topic: NewTopic) -> None:
        self._admin.create_topics([topic])[topic.topic].result(TIMEOUT_SECONDS)


class KafkaPythonClient:
    """kafka-python: pure Python, the newest versions of every API."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.name = f"kafka-python {version('kafka-python')}"
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers.split(","))

    def racks(self) -> dict[int, str | None]:
        return {broker["broker_id"]: broker["rack"] for broker in self._admin.describe_cluster()["brokers"]}

    def create(self, topic_name: str, partitions: int, replication_factor: int, configs: dict[str, str]) -> None:
        counts = {"num_partitions": partitions, "replication_factor": replication_factor}
        self._admin.create_topics({topic_name: {**counts, "configs": configs}})

    def create_assigned(self, topic_name: str, assignments: Sequence[Sequence[int]]) -> None:
        rows = {index: list(broker_ids) for index, broker_ids in enumerate(assignments)}
        self._admin.create_topics({topic_name: {"assignments": rows}})

    def refusal(self, topic_name: str, partitions: int, replication_factor: int) -> tuple[int, str]:
        counts = {"num_partitions": partitions, "replication_factor": replication_factor}
        try:
            self._admin.create_topics({topic_name: counts})
        except BrokerResponseError as error:
            answer = self._admin.create_topics({topic_name: counts}, raise_errors=False)["topics"][0]
            return error.errno, answer["error_message"]
        return 0, ""

    def describe(self, topic_name: str) -> Placement | None:
        topic = self._admin.describe_topics([topic_name])[0]
        if topic["error_code"]:
            return None
        return tuple(
            SeenPartition(
                seen["partition_index"], seen["leader_id"], tuple(seen["replica_nodes"]), frozenset(seen["isr_nodes"])
            )
            for seen in sorted(topic["partitions"], key=lambda seen: seen["partition_index"])
        )

    def config(self, topic_name: str, key: str) -> str | None:
        resource = PythonConfigResource(PythonConfigResourceType.TOPIC, topic_name, configs=None)
        entries = self._admin.describe_configs([resource], config_filter="all")["topic"][topic_name]
        return entries[key]["value"] if key in entries else None

    def enlarge(self, topic_name: str, total_count: int) -> None:
        self._admin.create_partitions({topic_name: total_count})

    def delete(self, topic_name: str) -> None:
        self._admin.delete_topics([topic_name])

    def close(self) -> None:
        self._admin.close()


class AioKafkaClient:
    """aiokafka: asyncio, and old versions of every API; errors come as codes in the answer."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.name = f"aiokafka {version('aiokafka')}"
        self._runner = asyncio.Runner()
        self._admin = self._runner.run(self._started(bootstrap_servers))

    @staticmethod
    async def _started(bootstrap_servers: str) -> AIOKafkaAdminClient:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
        await admin.start()
        return admin

    def racks(self) -> dict[int, str | None]:
        cluster = self._runner.run(self._admin.describe_cluster())
        return {broker["node_id"]: broker["rack"] for broker in cluster["brokers"]}

    def create(self, topic_name: str, partitions: int, replication_factor: int, configs: dict[str, str]) -> None:
        self._create(AioNewTopic(topic_name, partitions, replication_factor, topic_configs=configs))

    def create_assigned(self, topic_name: str, assignments: Sequence[Sequence[int]]) -> None:
        rows = {index: list(broker_ids) for index, broker_ids in enumerate(assignments)}
        self._create(AioNewTopic(topic_name, -1, -1, replica_assignments=rows))

    def refusal(self, topic_name: str, partitions: int, replication_factor: int) -> tuple[int, str]:
        return self._answer(AioNewTopic(topic_name, partitions, replication_factor))

    def describe(self, topic_name: str) -> Placement | None:
        # All topics, because a request for one name would create a missing topic.
        topics = {topic["topic"]: topic for topic in self._runner.run(self._admin.describe_topics())}
        topic = topics.get(topic_name)
        if topic is None:
            return None
        return tuple(
            SeenPartition(seen["partition"], seen["leader"], tuple(seen["replicas"]), frozenset(seen["isr"]))
            for seen in sorted(topic["partitions"], key=lambda seen: seen["partition"])
        )

    def config(self, topic_name: str, key: str) -> str | None:
        resource = AioConfigResource(AioConfigResourceType.TOPIC, topic_name)
        answer: Any = self._runner.run(self._admin.describe_configs([resource]))[0]
        (_, _, _, _, entries) = answer.resources[0]
        return next((entry[1] for entry in entries if entry[0] == key), None)

    def enlarge(self, topic_name: str, total_count: int) -> None:
        self._runner.run(self._admin.create_partitions({topic_name: AioNewPartitions(total_count)}))

    def delete(self, topic_name: str) -> None:
        answer: Any = self._runner.run(self._admin.delete_topics([topic_name]))
        ((_, code),) = answer.topic_error_codes
        if code:
            raise RuntimeError(f"{self.name} was answered {code} on deleting {topic_name}")

    def close(self) -> None:
        self._runner.run(self._admin.close())
        self._runner.close()

    def _create(self, topic: AioNewTopic) -> None:
        code, words = self._answer(topic)
        if code:
            raise RuntimeError(f"{self.name} was answered {code} on creating {topic.name}: {words}")

    def _answer(self, topic: AioNewTopic) -> tuple[int, str]:
        answer: Any = self._runner.run(self._admin.create_topics([topic]))
        ((_, code, words),) = answer.topic_errors
        return code, words or ""


CLIENTS: tuple[Callable[[str], StoryClient], ...] = (ConfluentClient, KafkaPythonClient, AioKafkaClient)
