"""Clusters of Kafka 3.3: the metadata log that they begin, what its metadata.version rules out, and an upgrade."""

from pathlib import Path

import pytest

from klamm.cluster.assembly import open_cluster
from klamm.cluster.options import checked_options
from klamm.cluster.plan import FREE_PORTS, ClusterPlan, plan_cluster
from klamm.controller.metadata.replay import ReplayError
from klamm.controller.settings import SettingsError
from klamm.protocol.messages.cluster import update_features
from tests.behaviour.player import Line


def planned(**options: object) -> ClusterPlan:
    return plan_cluster(checked_options({"brokers": 2, "seed": 5, **options}), {}, FREE_PORTS)


async def test_a_log_of_3_3_is_upgraded_by_brokers_of_4_3(tmp_path: Path) -> None:
    async with open_cluster(planned(kafka_version="3.3", data_dir=tmp_path)) as cluster:
        image = cluster.brokers.controller.image
        assert dict(image.features) == {"metadata.version": 7}
        assert {one.features for one in image.brokers.values()} == {(("metadata.version", 1, 7),)}
        await cluster.snapshot()
    async with open_cluster(planned(data_dir=tmp_path)) as cluster:
        image = cluster.brokers.controller.image
        assert {one.log_dirs for one in image.brokers.values()} == {()}
        line = await Line.open(cluster.bootstrap_servers.split(",")[0])
        upgrade = update_features.FeatureUpdateKey(feature="metadata.version", max_version_level=30, upgrade_type=1)
        request = update_features.UpdateFeaturesRequest(feature_updates=[upgrade])
        assert (await line.ask(update_features.API, 2, request)).error_code == 0
        for broker in cluster.brokers.by_id.values():
            broker.beat(broker.next_heartbeat_at)
        assert [one.log_dirs for one in image.brokers.values()] == [
            (broker.log_dirs.all[0].directory_id,) for broker in cluster.brokers.by_id.values()
        ]
        await line.close()


@pytest.mark.parametrize("given", [{"log_dirs": 2}, {"broker_configs": {2: {"log.dirs": "/a,/b"}}}])
async def test_several_log_directories_need_3_7(given: dict[str, object]) -> None:
    reason = r"need metadata\.version 3\.7-IV2 or higher, and the metadata log is at 3\.6-IV2$"
    with pytest.raises(ReplayError, match=reason):
        async with open_cluster(planned(kafka_version="3.6", **given)):
            pass


async def test_a_broker_of_3_3_without_its_disk_is_fenced() -> None:
    """The log has no directories, so the broker asks to be fenced."""
    async with open_cluster(planned(kafka_version="3.3")) as cluster:
        brokers, image = cluster.brokers.by_id, cluster.brokers.controller.image
        brokers[1].disk_is_away = True
        brokers[1].report_disks()
        assert [one.fenced for one in image.brokers.values()] == [True, False]
        brokers[1].disk_is_away = False
        brokers[1].report_disks()
        assert [one.fenced for one in image.brokers.values()] == [False, False]


def test_scram_credentials_of_a_new_log_need_3_5() -> None:
    credential = ("SCRAM-SHA-256=[name=alice,password=secret]",)
    with pytest.raises(SettingsError, match=r"SCRAM is only supported in metadata\.version 3\.5-IV2 or later"):
        planned(metadata_version="10", add_scram=credential)
    assert planned(metadata_version="11", add_scram=credential).settings.metadata_version == 11
