"""confluent-kafka, that is librdkafka: what most languages administer Kafka with."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, NewPartitions, NewTopic

from klamm.cluster.server_process import ServerProcess
from tests.clients.conftest import DEFAULT_REPLICATION_FACTOR, NUM_PARTITIONS, RACKS

SECONDS = 20.0


@pytest.fixture(scope="module")
def admin(server: ServerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": server.bootstrap_servers})


def create(admin: AdminClient, topic: NewTopic, **options: Any) -> None:
    admin.create_topics([topic], **options)[topic.topic].result(SECONDS)


def enlarge(admin: AdminClient, partitions: NewPartitions) -> None:
    admin.create_partitions([partitions])[partitions.topic].result(SECONDS)


def replicas(admin: AdminClient, topic_name: str) -> list[list[int]]:
    partitions = admin.list_topics(topic_name, timeout=SECONDS).topics[topic_name].partitions
    return [partitions[index].replicas for index in range(len(partitions))]


def code_of(raised: pytest.ExceptionInfo[KafkaException]) -> int:
    code: int = raised.value.args[0].code()
    return code


def test_a_topic_with_defaults_has_the_counts_of_the_brokers_configs(admin: AdminClient, topic_name: str) -> None:
    create(admin, NewTopic(topic_name))
    placed = replicas(admin, topic_name)
    assert [len(row) for row in placed] == [DEFAULT_REPLICATION_FACTOR] * NUM_PARTITIONS


def test_replicas_of_a_partition_stand_on_different_racks_and_the_first_leads(
    admin: AdminClient, topic_name: str
) -> None:
    create(admin, NewTopic(topic_name, 7, 3))
    topic = admin.describe_topics(TopicCollection([topic_name]))[topic_name].result(SECONDS)
    assert len(topic.partitions) == 7
    for partition in topic.partitions:
        assert sorted(node.rack for node in partition.replicas) == sorted(RACKS.values())
        assert partition.leader.id == partition.replicas[0].id
        assert {node.id for node in partition.isr} == set(RACKS)


def test_replicas_are_where_they_were_put(admin: AdminClient, topic_name: str) -> None:
    wanted = [[3, 1], [2, 3]]
    create(admin, NewTopic(topic_name, len(wanted), replica_assignment=wanted))
    assert replicas(admin, topic_name) == wanted


def test_an_enlarged_topic_keeps_its_old_partitions(admin: AdminClient, topic_name: str) -> None:
    create(admin, NewTopic(topic_name, 2, 2))
    before = replicas(admin, topic_name)
    enlarge(admin, NewPartitions(topic_name, 4, replica_assignment=[[1, 3], [2, 1]]))
    assert replicas(admin, topic_name) == [*before, [1, 3], [2, 1]]


def test_a_deleted_topic_is_gone(admin: AdminClient, topic_name: str) -> None:
    create(admin, NewTopic(topic_name))
    admin.delete_topics([topic_name])[topic_name].result(SECONDS)
    assert topic_name not in admin.list_topics(timeout=SECONDS).topics
    with pytest.raises(KafkaException) as raised:
        admin.delete_topics([topic_name])[topic_name].result(SECONDS)
    assert code_of(raised) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_topic_that_is_only_validated_is_not_made(admin: AdminClient, topic_name: str) -> None:
    create(admin, NewTopic(topic_name, 1, 1), validate_only=True)
    assert topic_name not in admin.list_topics(timeout=SECONDS).topics


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (NewTopic("no/name", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("too-many-replicas", 1, 4), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("unknown-broker", 1, replica_assignment=[[1, 9]]), KafkaError.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("bad-config", 1, 1, config={"retention.ms": "soon"}), KafkaError.INVALID_CONFIG),
    ],
    ids=lambda value: value.topic if isinstance(value, NewTopic) else "",
)
def test_a_refused_topic_raises_and_is_not_made(admin: AdminClient, topic: NewTopic, code: int) -> None:
    with pytest.raises(KafkaException) as raised:
        create(admin, topic)
    assert code_of(raised) == code
    assert topic.topic not in admin.list_topics(timeout=SECONDS).topics


def test_a_refused_topic_leaves_the_others_of_its_request_alone(admin: AdminClient, topic_name: str) -> None:
    create(admin, NewTopic(topic_name, 1, 1))
    beside = f"{topic_name}-beside"
    futures = admin.create_topics([NewTopic(topic_name, 1, 1), NewTopic(beside, 1, 1)])
    with pytest.raises(KafkaException) as raised:
        futures[topic_name].result(SECONDS)
    assert code_of(raised) == KafkaError.TOPIC_ALREADY_EXISTS
    assert futures[beside].result(SECONDS) is None
    assert len(replicas(admin, beside)) == 1


def test_a_topic_cannot_shrink(admin: AdminClient, topic_name: str) -> None:
    create(admin, NewTopic(topic_name, 3, 1))
    with pytest.raises(KafkaException) as raised:
        enlarge(admin, NewPartitions(topic_name, 2))
    assert code_of(raised) == KafkaError.INVALID_PARTITIONS
    assert len(replicas(admin, topic_name)) == 3


def test_enlarging_an_unknown_topic_is_an_invalid_topic_in_profile_kip(admin: AdminClient, topic_name: str) -> None:
    with pytest.raises(KafkaException) as raised:
        enlarge(admin, NewPartitions(topic_name, 2))
    assert code_of(raised) == KafkaError.TOPIC_EXCEPTION


def test_configs_are_told_with_their_sources(admin: AdminClient, topic_name: str) -> None:
    create(admin, NewTopic(topic_name, 1, 1, config={"retention.ms": "1234"}))
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic_name)
    configs = admin.describe_configs([resource])[resource].result(SECONDS)
    assert configs["retention.ms"].value == "1234"
    assert configs["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert configs["cleanup.policy"].value == "delete"
    assert configs["cleanup.policy"].source == ConfigSource.DEFAULT_CONFIG.value


@pytest.mark.parametrize("broker_id", RACKS)
def test_a_broker_tells_its_own_configs(admin: AdminClient, broker_id: int) -> None:
    resource = ConfigResource(ConfigResource.Type.BROKER, str(broker_id))
    configs = admin.describe_configs([resource])[resource].result(SECONDS)
    assert configs["num.partitions"].value == str(NUM_PARTITIONS)
    assert configs["num.partitions"].source == ConfigSource.STATIC_BROKER_CONFIG.value
    assert configs["num.partitions"].is_read_only


def test_the_configs_of_an_unknown_topic_are_an_error(admin: AdminClient, topic_name: str) -> None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic_name)
    with pytest.raises(KafkaException) as raised:
        admin.describe_configs([resource])[resource].result(SECONDS)
    assert code_of(raised) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_the_cluster_is_described_with_its_racks(admin: AdminClient, server: ServerProcess) -> None:
    cluster = admin.describe_cluster(request_timeout=SECONDS).result(SECONDS)
    assert {node.id: node.rack for node in cluster.nodes} == RACKS
    assert ",".join(f"{node.host}:{node.port}" for node in cluster.nodes) == server.bootstrap_servers
    assert cluster.controller.id in RACKS
    assert cluster.cluster_id
