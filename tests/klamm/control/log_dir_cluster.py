"""What tests of log directories ask of a cluster: where replicas are, moves, and the errors of requests for records."""

from typing import Any

import trio

import klamm
from klamm.protocol.messages.brokers import alter_replica_log_dirs, describe_log_dirs
from klamm.protocol.messages.brokers.alter_replica_log_dirs import AlterReplicaLogDir, AlterReplicaLogDirTopic
from klamm.protocol.messages.data import fetch, list_offsets, produce
from tests.broker.data.batches import batch
from tests.server.harness import Peer

TOPIC = "orders"
FIRST, SECOND = "/tmp/kafka-logs-1", "/tmp/kafka-logs-2"
QUICK: dict[str, str | float] = {"broker.session.timeout.ms": 1000, "broker.heartbeat.interval.ms": 100}


async def connect(cluster: klamm.Cluster, broker_id: int) -> Peer:
    at = cluster._up.advertised(broker_id)
    return Peer(await trio.open_tcp_stream(at.host, at.port))


async def ask(cluster: klamm.Cluster, broker_id: int, api: Any, version: int, request: Any) -> Any:
    peer = await connect(cluster, broker_id)
    try:
        return await peer.ask(api, version, request)
    finally:
        await peer.aclose()


async def described(cluster: klamm.Cluster, broker_id: int) -> dict[str, dict[tuple[str, int], Any]]:
    """The replicas in each directory of a broker."""
    answer = await ask(
        cluster, broker_id, describe_log_dirs.API, 5, describe_log_dirs.DescribeLogDirsRequest(topics=None)
    )
    assert [one.error_code for one in answer.results if one.topics] in ([], [0], [0, 0], 4 * [0])
    return {
        one.log_dir: {(topic.name, row.partition_index): row for topic in one.topics for row in topic.partitions}
        for one in answer.results
    }


async def move(
    cluster: klamm.Cluster, broker_id: int, path: str, *indexes: int, topic: str = TOPIC, version: int = 2
) -> list[int]:
    wanted = AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=topic, partitions=indexes)])
    request = alter_replica_log_dirs.AlterReplicaLogDirsRequest(dirs=[wanted])
    answer = await ask(cluster, broker_id, alter_replica_log_dirs.API, version, request)
    return [row.error_code for found in answer.results for row in found.partitions]


async def write(cluster: klamm.Cluster, broker_id: int, index: int = 0, count: int = 1) -> int:
    data = [produce.PartitionProduceData(index=index, records=batch(count))]
    topic = produce.TopicProduceData(name=TOPIC, partition_data=data)
    request = produce.ProduceRequest(acks=1, timeout_ms=5000, topic_data=[topic])
    answer = await ask(cluster, broker_id, produce.API, 9, request)
    return int(answer.responses[0].partition_responses[0].error_code)


def directories(cluster: klamm.Cluster, index: int, topic: str = TOPIC) -> dict[int, str]:
    """What the metadata say: the path of each replica's directory, by broker id."""
    image: Any = cluster._up.image
    partition = image.partitions.read(image.topics_by_name[topic].row, index)
    found = {}
    for broker_id, directory in zip(partition.replicas, partition.directories, strict=True):
        one = cluster._up.brokers.by_id[broker_id].log_dirs.find(directory)
        found[broker_id] = one.path if one is not None else ""
    return found


async def directories_are(cluster: klamm.Cluster, wanted: dict[int, str]) -> bool:
    return directories(cluster, 1) == wanted


async def read_error(cluster: klamm.Cluster, broker_id: int, index: int) -> int:
    topic_id = cluster._up.image.topics_by_name[TOPIC].topic_id
    wanted = fetch.FetchTopic(
        topic_id=topic_id, partitions=[fetch.FetchPartition(partition=index, partition_max_bytes=99)]
    )
    request = fetch.FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=99, topics=[wanted])
    answer = await ask(cluster, broker_id, fetch.API, 13, request)
    return int(answer.responses[0].partitions[0].error_code)


async def end_error(cluster: klamm.Cluster, broker_id: int, index: int) -> int:
    partition = list_offsets.ListOffsetsPartition(partition_index=index, timestamp=-1)
    request = list_offsets.ListOffsetsRequest(
        replica_id=-1, topics=[list_offsets.ListOffsetsTopic(name=TOPIC, partitions=[partition])]
    )
    answer = await ask(cluster, broker_id, list_offsets.API, 7, request)
    return int(answer.topics[0].partitions[0].error_code)


async def isr_has(cluster: klamm.Cluster, index: int, broker_id: int) -> bool:
    return broker_id in await cluster.isr(TOPIC, index)


def is_up(cluster: klamm.Cluster) -> bool:
    return cluster._up.brokers.by_id[1].is_up
