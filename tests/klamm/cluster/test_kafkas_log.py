"""A start on the data directory of a controller of Apache Kafka 4.3 (tests/golden/controller-log): Klamm goes on where
it stopped, in a new epoch, and keeps what it wrote."""

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from trio.testing import MockClock

from klamm.cluster.assembly import open_cluster
from klamm.cluster.options import checked_options
from klamm.cluster.plan import FREE_PORTS, plan_cluster
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.restore import restore
from klamm.protocol.messages.cluster import api_versions, describe_cluster
from klamm.protocol.messages.raft import describe_quorum
from klamm.protocol.record_batch import decode_batches
from klamm.protocol.records.control import KRaftVersionRecord, LeaderChangeMessage, VotersRecord
from klamm.server.server import Server
from tests.behaviour.player import Line
from tests.controller.log.logs import open_log

RECORDED = Path(__file__).resolve().parents[2] / "golden" / "controller-log"
LOG = Path("__cluster_metadata-0") / "00000000000000000000.log"
KAFKAS_END = 52


@pytest.fixture
def clock() -> MockClock:
    """Time passes when nothing else happens; not at once, since sockets may need a moment."""
    return MockClock(autojump_threshold=0.003)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RECORDED, tmp_path / "data"))


@asynccontextmanager
async def taken_over(data_dir: Path) -> AsyncIterator[tuple[Server, Line]]:
    options = {"brokers": 0, "controller_listener": "127.0.0.1:0", "data_dir": data_dir}
    async with open_cluster(plan_cluster(checked_options(options), {}, FREE_PORTS)) as server:
        assert server.controller_bootstrap_servers is not None
        line = await Line.open(server.controller_bootstrap_servers)
        yield server, line
        await line.close()


def restored(data_dir: Path) -> MetadataImage:
    log, image = open_log(data_dir), MetadataImage()
    assert restore(image, log) is False
    log.close()
    return image


def test_all_that_the_controller_wrote_is_in_the_image(data_dir: Path) -> None:
    image = restored(data_dir)
    assert image.features == {
        "metadata.version": 30,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 2,
    }
    assert list(image.topics_by_name) == ["r-a"]
    assert image.partition_count(image.topics_by_name["r-a"]) == 5
    assert dict(image.config(2, "r-a")) == {"retention.ms": "3600000", "max.message.bytes": "5000"}
    (broker,) = image.brokers.values()
    assert (broker.broker_id, broker.is_real, len(broker.log_dirs)) == (1, False, 1)
    facts = image.facts()
    assert len(facts["acls"]) == 1
    assert [user for user, _ in facts["scram_credentials"]] == ["r-u"]
    assert image.next_producer_id == 1_000
    (controller,) = image.controllers.values()
    assert [(one.name, one.port) for one in controller.end_points] == [("CONTROLLER", 24520)]


async def test_klamm_leads_the_next_epoch_with_its_own_end_point(data_dir: Path, clock: MockClock) -> None:
    async with taken_over(data_dir) as (server, line):
        port = int((server.controller_bootstrap_servers or "").rpartition(":")[2])
        software = api_versions.ApiVersionsRequest(client_software_name="t", client_software_version="1")
        levels = {
            one.name: one.max_version_level
            for one in (await line.ask(api_versions.API, 4, software)).finalized_features
        }
        assert levels["kraft.version"] == 1
        asked = describe_quorum.TopicData(
            topic_name="__cluster_metadata", partitions=[describe_quorum.PartitionData(partition_index=0)]
        )
        quorum = await line.ask(describe_quorum.API, 2, describe_quorum.DescribeQuorumRequest(topics=[asked]))
        state = quorum.topics[0].partitions[0]
        assert (state.leader_id, state.leader_epoch, [one.replica_id for one in state.current_voters]) == (
            3000,
            2,
            [3000],
        )
        described = await line.ask(describe_cluster.API, 2, describe_cluster.DescribeClusterRequest(endpoint_type=2))
        assert [(one.broker_id, one.port) for one in described.brokers] == [(3000, port)]
        assert server.identity.cluster_id == "KlammToolchainCluster1"
    first = next(batch for batch in decode_batches((data_dir / LOG).read_bytes()) if batch.base_offset == KAFKAS_END)
    change, voters = first.records
    assert isinstance(change, LeaderChangeMessage)
    assert isinstance(voters, VotersRecord)  # kraft.version stays; the end point is another one
    assert [at.port for at in voters.voters[0].endpoints] == [port]
    assert not any(isinstance(record, KRaftVersionRecord) for record in first.records)
    kept = json.loads((data_dir / "__cluster_metadata-0" / "quorum-state").read_text())
    assert (kept["leaderEpoch"], kept["data_version"]) == (2, 1)


async def test_nothing_that_kafka_wrote_changes_and_a_snapshot_has_it_all(data_dir: Path, clock: MockClock) -> None:
    before = (data_dir / LOG).read_bytes()
    facts = restored(Path(shutil.copytree(data_dir, data_dir.with_name("first")))).facts()
    async with taken_over(data_dir) as _:
        pass
    assert (data_dir / LOG).read_bytes().startswith(before)
    assert list((data_dir / LOG).parent.glob("*[1-9]*.checkpoint"))  # written at the end
    again = restored(data_dir).facts()
    for unfenced in (facts, again):
        unfenced.pop("brokers")
        unfenced.pop("partitions", None)
    assert again == facts
