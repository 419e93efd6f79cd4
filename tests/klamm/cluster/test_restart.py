"""A cluster assembled from its plan: what a restart finds, and what depends on the seed."""

from pathlib import Path

import pytest
import trio

from klamm.cluster.assembly import open_cluster
from klamm.cluster.plan import ClusterPlan
from klamm.controller.log import LogError
from klamm.controller.settings import Settings
from klamm.protocol.messages.configs import alter_client_quotas, describe_client_quotas
from klamm.server.addresses import Address
from klamm.server.listener import PortTaken
from klamm.server.listeners import default_plan
from klamm.server.request_log import RequestLogError
from tests.behaviour.player import Line
from tests.server.test_listener import can_connect, free_ports_in_a_row

LOG_FILE = Path("__cluster_metadata-0") / "00000000000000000000.log"


def make_plan(**members: object) -> ClusterPlan:
    return ClusterPlan(**{"settings": Settings(seed=5), "racks": ("a", "b", "c"), **members})  # type: ignore[arg-type]


async def test_brokers_that_find_themselves_unchanged_write_nothing(tmp_path: Path) -> None:
    plan = make_plan(listeners=default_plan(Address("127.0.0.1", free_ports_in_a_row(3))), data_dir=tmp_path)
    sizes = []
    for _ in range(3):
        async with open_cluster(plan):
            pass
        sizes.append((tmp_path / LOG_FILE).stat().st_size)
    first, second, third = sizes
    assert first < second
    assert third - second == second - first < 200, "a restart adds the batch that begins its epoch, and no other"


@pytest.mark.parametrize("with_snapshot", [False, True])
async def test_client_quotas_are_there_after_a_restart(tmp_path: Path, with_snapshot: bool) -> None:
    """Without a snapshot the start replays the record. With a snapshot the record is gone, and the quota must be in the
    snapshot."""
    plan = make_plan(data_dir=tmp_path)
    user = [alter_client_quotas.EntityData(entity_type="user", entity_name=None)]
    rate = alter_client_quotas.OpData(key="controller_mutation_rate", value=0.25)
    async with open_cluster(plan) as cluster:
        line = await Line.open(cluster.bootstrap_servers.split(",")[0])
        request = alter_client_quotas.AlterClientQuotasRequest(
            entries=[alter_client_quotas.EntryData(entity=user, ops=[rate])]
        )
        answer = await line.ask(alter_client_quotas.API, 1, request)
        assert [entry.error_code for entry in answer.entries] == [0]
        if with_snapshot:
            await cluster.snapshot()
        await line.close()
    async with open_cluster(plan) as cluster:
        line = await Line.open(cluster.bootstrap_servers.split(",")[1])
        answer = await line.ask(describe_client_quotas.API, 1, describe_client_quotas.DescribeClientQuotasRequest())
        assert [[(one.key, one.value) for one in entry.values] for entry in answer.entries] == [
            [(rate.key, rate.value)]
        ]
        await line.close()


async def test_one_seed_makes_the_same_log_byte_for_byte(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    port = free_ports_in_a_row(3)
    logs = []
    for name in ("one", "other"):
        listeners = default_plan(Address("127.0.0.1", port))
        plan = make_plan(listeners=listeners, data_dir=tmp_path / name, start_ms=1_700_000_000_000)
        async with open_cluster(plan):
            pass
        logs.append((tmp_path / name / LOG_FILE).read_bytes())
    assert logs[0] == logs[1]


async def test_whatever_refuses_to_start_leaves_no_port_open(tmp_path: Path) -> None:
    port = free_ports_in_a_row(4)
    (tmp_path / "file").write_text("x")
    listen = Address("127.0.0.1", port)
    for refusal, members in (
        (LogError, {"data_dir": tmp_path / "file"}),
        (RequestLogError, {"request_log": tmp_path / "file"}),
        (PortTaken, {"listeners": default_plan(listen, Address("127.0.0.1", port + 1))}),
    ):
        with pytest.raises(refusal):
            async with open_cluster(make_plan(**{"listeners": default_plan(listen), **members})):
                pytest.fail("it started")
        assert not any(can_connect(port + index) for index in range(4))


async def test_what_goes_wrong_in_the_block_comes_out_of_it_as_it_is() -> None:
    with pytest.raises(KeyError, match="ours"):
        async with open_cluster(make_plan()):
            raise KeyError("ours")
