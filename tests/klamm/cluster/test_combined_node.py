"""A node that is broker and controller in one: `process.roles=broker,controller` in a server.properties as people have
it, taken as it is."""

from pathlib import Path
from typing import Any

import pytest

import klamm
from klamm.cluster.assembly import open_cluster
from klamm.cluster.options import checked_options
from klamm.cluster.plan import FREE_PORTS, plan_cluster
from klamm.protocol.messages.cluster import api_versions, describe_cluster
from klamm.protocol.messages.raft import describe_quorum
from tests.behaviour.player import Line
from tests.server.test_listener import free_ports_in_a_row

RECORDED = """\
process.roles=broker,controller
node.id={node}
{quorum}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={dirs}
num.partitions=1
default.replication.factor=1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
log.cleaner.dedupe.buffer.size=4194304
"""
"""The file of the recorded cluster (tests/golden/security), without its other listeners."""
DYNAMIC, STATIC = "controller.quorum.bootstrap.servers=127.0.0.1:1", "controller.quorum.voters=1@127.0.0.1:1"
METADATA = describe_quorum.DescribeQuorumRequest(
    topics=[
        describe_quorum.TopicData(
            topic_name="__cluster_metadata", partitions=[describe_quorum.PartitionData(partition_index=0)]
        )
    ]
)


def written(tmp_path: Path, quorum: str = DYNAMIC, node: int = 1) -> tuple[Path, int]:
    """The file, and the port of the broker."""
    port = free_ports_in_a_row(2)
    dirs = tmp_path / "data"
    config = tmp_path / "server.properties"
    config.write_text(RECORDED.format(node=node, quorum=quorum, port=port, controller=port + 1, dirs=dirs))
    return config, port


@pytest.mark.parametrize(("quorum", "kraft_version"), [(DYNAMIC, 1), (STATIC, 0), ("", 0)])
async def test_a_file_of_a_combined_node_is_taken_as_it_is(tmp_path: Path, quorum: str, kraft_version: int) -> None:
    config, port = written(tmp_path, quorum)
    plan = plan_cluster(checked_options({"config": config, "brokers": 1, "profile": "kafka"}), {}, FREE_PORTS)
    assert plan.data_dir is None
    assert [warning for warning in plan.warnings if "node.id" in warning or "quorum" in warning] == []
    async with open_cluster(plan) as cluster:
        assert cluster.bootstrap_servers == f"127.0.0.1:{port}"
        assert cluster.controller_bootstrap_servers == f"127.0.0.1:{port + 1}"
        for address in (cluster.bootstrap_servers, cluster.controller_bootstrap_servers):
            line = await Line.open(address)
            answer = await line.ask(describe_quorum.API, 2, METADATA)
            state = answer.topics[0].partitions[0]
            assert (state.leader_id, [one.replica_id for one in state.current_voters]) == (1, [1])
            assert not state.observers
            assert [node.node_id for node in answer.nodes] == [1]
            software = api_versions.ApiVersionsRequest(client_software_name="t", client_software_version="1")
            levels = {
                one.name: one.max_version_level
                for one in (await line.ask(api_versions.API, 4, software)).finalized_features
            }
            assert levels.get("kraft.version", 0) == kraft_version
            await line.close()
        line = await Line.open(cluster.controller_bootstrap_servers)
        controllers = await line.ask(describe_cluster.API, 1, describe_cluster.DescribeClusterRequest(endpoint_type=2))
        assert [one.broker_id for one in controllers.brokers] == [1]
        await line.close()
    assert not (tmp_path / "data").exists(), "log.dirs is no data directory"


async def test_the_other_brokers_have_the_next_ids_and_observe_the_quorum(tmp_path: Path) -> None:
    options: dict[str, Any] = {"process.roles": "controller,broker", "node.id": "5"}
    async with klamm.Cluster(brokers=3, configs=options) as cluster:
        line = await Line.open(cluster.bootstrap_servers.split(",")[0])
        answer = await line.ask(describe_quorum.API, 2, METADATA)
        state = answer.topics[0].partitions[0]
        assert ([one.replica_id for one in state.current_voters], [one.replica_id for one in state.observers]) == (
            [5],
            [6, 7],
        )
        assert len({one.replica_directory_id for one in state.observers}) == 2
        await line.close()


def planned(**options: Any) -> Any:
    return plan_cluster(checked_options(options), {}, FREE_PORTS)


def test_chosen_ids_count_more_than_the_file() -> None:
    configs = {"process.roles": "broker,controller", "node.id": "5"}
    assert planned(configs=configs).broker_ids == (5, 6, 7)
    assert planned(configs=configs).settings.controller_id == 5
    assert planned(configs=configs, broker_ids=(4, 5)).settings.controller_id == 5
    assert planned(configs=configs, broker_ids=(1, 2)).settings.controller_id is None
    assert planned(configs={"node.id": "5"}).settings.controller_id is None
    assert planned(configs={"process.roles": "broker", "node.id": "5"}).broker_ids == (1, 2, 3)
    combined = {"process.roles": "broker,controller", "node.id": "3000"}
    assert planned(configs=combined, broker_ids=(3000,)).settings.controller_id == 3000
