"""The metadata on which `klamm try` is tested: six brokers in three racks."""

from pathlib import Path

import pytest
import trio

import klamm

RACKS = ("a", "b", "c", "a", "b", "c")


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six brokers in three racks; the replicas of "crooked" are on brokers 1 and 4 of rack a alone."""
    data_dir = tmp_path_factory.mktemp("twin") / "data"

    async def make() -> None:
        async with (
            klamm.Cluster(brokers=6, racks=RACKS, data_dir=data_dir, seed=1) as cluster,
            klamm.AdminClient(cluster.bootstrap_servers) as admin,
        ):
            crooked = {index: [1, 4] for index in range(6)}
            even = klamm.NewTopic("even", 12, 3, {"min.insync.replicas": "3"})
            made = await admin.create_topics([even, klamm.NewTopic("crooked", replica_assignments=crooked)])
            assert [one.error for one in made] == [None, None]

    trio.run(make)
    return data_dir
