"""kafka-python 3: the newest version of every API, and answers as plain dictionaries."""

import uuid
from collections.abc import Iterator

import pytest
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import (
    BrokerResponseError,
    InvalidConfigurationError,
    InvalidPartitionsError,
    InvalidReplicationAssignmentError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from klamm.cluster.server_process import ServerProcess
from tests.clients.conftest import DEFAULT_REPLICATION_FACTOR, NUM_PARTITIONS, RACKS


@pytest.fixture(scope="module")
def admin(server: ServerProcess) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=server.bootstrap_servers.split(","))
    yield client
    client.close()


def replicas(admin: KafkaAdminClient, topic_name: str) -> list[list[int]]:
    (topic,) = admin.describe_topics([topic_name])
    assert topic["error_code"] == 0
    return [partition["replica_nodes"] for partition in topic["partitions"]]


def test_a_topic_with_defaults_is_answered_with_its_counts_configs_and_id(
    admin: KafkaAdminClient, topic_name: str
) -> None:
    (made,) = admin.create_topics([topic_name])["topics"]
    assert (made["num_partitions"], made["replication_factor"]) == (NUM_PARTITIONS, DEFAULT_REPLICATION_FACTOR)
    assert made["configs"]["cleanup.policy"]["value"] == "delete"
    (described,) = admin.describe_topics([uuid.UUID(made["topic_id"])])
    assert (described["name"], described["topic_id"]) == (topic_name, made["topic_id"])
    assert [len(row) for row in replicas(admin, topic_name)] == [DEFAULT_REPLICATION_FACTOR] * NUM_PARTITIONS


def test_replicas_are_where_they_were_put(admin: KafkaAdminClient, topic_name: str) -> None:
    wanted = {0: [3, 1], 1: [2, 3]}
    admin.create_topics({topic_name: {"assignments": wanted}})
    assert replicas(admin, topic_name) == list(wanted.values())


def test_an_enlarged_topic_keeps_its_old_partitions(admin: KafkaAdminClient, topic_name: str) -> None:
    admin.create_topics({topic_name: {"num_partitions": 2, "replication_factor": 3}})
    before = replicas(admin, topic_name)
    admin.create_partitions({topic_name: 5})
    after = replicas(admin, topic_name)
    assert after[:2] == before
    assert [sorted(row) for row in after] == [sorted(RACKS)] * 5


def test_partitions_are_described_with_their_eligible_leaders(admin: KafkaAdminClient, topic_name: str) -> None:
    admin.create_topics({topic_name: {"num_partitions": 3, "replication_factor": 2}})
    (topic,) = admin.describe_topic_partitions([topic_name])["topics"]
    assert [partition["partition_index"] for partition in topic["partitions"]] == [0, 1, 2]
    for partition in topic["partitions"]:
        assert partition["leader_id"] == partition["replica_nodes"][0]
        assert not partition["eligible_leader_replicas"]  # empty on the wire; the client makes None of it


def test_each_broker_tells_which_replicas_it_keeps(admin: KafkaAdminClient, topic_name: str) -> None:
    admin.create_topics({topic_name: {"assignments": {0: [3, 1], 1: [2, 3]}}})
    kept = {
        broker["broker"]: [
            partition["partition_index"] for topic in log_dir["topics"] for partition in topic["partitions"]
        ]
        for broker in admin.describe_log_dirs([topic_name])
        for log_dir in broker["log_dirs"]
    }
    assert kept == {1: [0], 2: [1], 3: [0, 1]}


@pytest.mark.parametrize("by_id", [False, True])
def test_a_deleted_topic_is_gone(admin: KafkaAdminClient, topic_name: str, by_id: bool) -> None:
    (made,) = admin.create_topics([topic_name])["topics"]
    admin.delete_topics([uuid.UUID(made["topic_id"]) if by_id else topic_name])
    assert topic_name not in admin.list_topics()
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([topic_name])


def test_a_topic_that_is_only_validated_is_not_made(admin: KafkaAdminClient, topic_name: str) -> None:
    admin.create_topics([topic_name], validate_only=True)
    assert topic_name not in admin.list_topics()


@pytest.mark.parametrize(
    ("name", "topic", "error"),
    [
        ("no/name", {}, InvalidTopicError),
        ("..", {}, InvalidTopicError),
        ("n" * 250, {}, InvalidTopicError),
        ("no-partitions", {"num_partitions": 0}, InvalidPartitionsError),
        ("too-many-replicas", {"replication_factor": 4}, InvalidReplicationFactorError),
        ("same-broker-twice", {"assignments": {0: [1, 1]}}, InvalidReplicationAssignmentError),
        ("bad-config", {"configs": {"retention.ms": "soon"}}, InvalidConfigurationError),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_a_refused_topic_raises_and_is_not_made(
    admin: KafkaAdminClient, name: str, topic: dict[str, object], error: type[BrokerResponseError]
) -> None:
    with pytest.raises(error):
        admin.create_topics({name: topic})
    assert name not in admin.list_topics()


def test_a_topic_is_not_made_twice(admin: KafkaAdminClient, topic_name: str) -> None:
    admin.create_topics([topic_name])
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([topic_name])


def test_a_topic_cannot_shrink(admin: KafkaAdminClient, topic_name: str) -> None:
    admin.create_topics({topic_name: {"num_partitions": 3}})
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({topic_name: 2})
    assert len(replicas(admin, topic_name)) == 3


def test_enlarging_an_unknown_topic_is_an_invalid_topic_in_profile_kip(
    admin: KafkaAdminClient, topic_name: str
) -> None:
    with pytest.raises(InvalidTopicError):
        admin.create_partitions({topic_name: 2})


def test_an_unknown_topic_is_described_by_its_error(admin: KafkaAdminClient, topic_name: str) -> None:
    codes = [topic["error_code"] for topic in admin.describe_topics([topic_name, uuid.uuid4()])]
    assert codes == [100]  # as Apache Kafka: one id among them, and those with only a name are dropped
    assert [topic["error_code"] for topic in admin.describe_topics([topic_name])] == [3]


def test_configs_are_told_with_their_sources(admin: KafkaAdminClient, topic_name: str) -> None:
    admin.create_topics({topic_name: {"configs": {"retention.ms": "1234"}}})
    resource = ConfigResource(ConfigResourceType.TOPIC, topic_name, configs=None)
    every = admin.describe_configs([resource], include_synonyms=True, config_filter="all")["topic"][topic_name]
    assert (every["retention.ms"]["value"], every["retention.ms"]["config_source"]) == ("1234", "DYNAMIC_TOPIC_CONFIG")
    assert every["cleanup.policy"]["config_source"] == "DEFAULT_CONFIG"
    assert [synonym["name"] for synonym in every["cleanup.policy"]["synonyms"]] == ["log.cleanup.policy"]


@pytest.mark.parametrize("broker_id", RACKS)
def test_a_broker_tells_its_own_configs(admin: KafkaAdminClient, broker_id: int) -> None:
    resource = ConfigResource(ConfigResourceType.BROKER, str(broker_id), configs=None)
    configs = admin.describe_configs([resource], config_filter="all")["broker"][str(broker_id)]
    assert configs["default.replication.factor"]["value"] == str(DEFAULT_REPLICATION_FACTOR)
    assert configs["default.replication.factor"]["config_source"] == "STATIC_BROKER_CONFIG"


def test_the_cluster_is_described_with_its_racks(admin: KafkaAdminClient, server: ServerProcess) -> None:
    cluster = admin.describe_cluster()
    assert {broker["broker_id"]: broker["rack"] for broker in cluster["brokers"]} == RACKS
    assert ",".join(f"{broker['host']}:{broker['port']}" for broker in cluster["brokers"]) == server.bootstrap_servers
    assert cluster["controller_id"] in RACKS
