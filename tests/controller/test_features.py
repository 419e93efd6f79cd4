"""The feature levels of a log: with which level it can be continued, and the effects of eligible leader replicas."""

import re

import pytest

from klamm.controller.log.snapshot_files import SnapshotContent, encode_snapshot
from klamm.controller.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage
from klamm.controller.metadata.replay import ReplayError
from klamm.controller.metadata.snapshot import copy_image, snapshot_batches
from klamm.controller.releases import RELEASES, Emulation, decode_metadata_version
from klamm.controller.settings import Settings
from klamm.controller.transitions.config_changes import clear_elr_records
from klamm.controller.transitions.features import bootstrap_records, new_metadata_version, refuse_other_metadata_version
from klamm.protocol.messages.cluster.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from klamm.protocol.records.cluster import FeatureLevelRecord
from klamm.protocol.records.configs import ConfigRecord
from klamm.protocol.records.partitions import ClearElrRecord
from tests.controller.cluster_states import apply
from tests.controller.handlers.cluster import DrivenCluster, directory
from tests.controller.record_versions import versions_in

MIN_ISR = ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t", name="min.insync.replicas", value="2")
CLUSTER_MIN_ISR = ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="", name="min.insync.replicas", value="2")
OTHER = ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t", name="retention.ms", value="2")


def new_image() -> MetadataImage:
    image = MetadataImage()
    apply(image, *bootstrap_records(Settings()))
    return image


@pytest.mark.parametrize("level", [6, 7, 22, 23, 29, 30, 31])
def test_a_log_is_gone_on_with_at_its_metadata_version(level: int) -> None:
    image = new_image()
    apply(image, FeatureLevelRecord(name="metadata.version", feature_level=level))
    if 7 <= level <= 30:
        refuse_other_metadata_version(image, Settings())
        refuse_other_metadata_version(image, Settings(metadata_version=level))
        with pytest.raises(
            ReplayError, match=f"^the metadata log is at metadata.version {level}, and 24 is asked for$"
        ):
            refuse_other_metadata_version(image, Settings(metadata_version=24))
    else:
        with pytest.raises(ReplayError, match=f"metadata.version {level}, and Klamm supports only 7 to 30, like"):
            refuse_other_metadata_version(image, Settings())


LEVELS = {
    7: {},
    21: {},
    22: {"group.version": 1},
    23: {"group.version": 1},
    24: {"group.version": 1, "transaction.version": 2},
    25: {"group.version": 1, "transaction.version": 2},
    26: {"eligible.leader.replicas.version": 1, "group.version": 1, "transaction.version": 2},
    27: {"eligible.leader.replicas.version": 1, "group.version": 1, "transaction.version": 2},
    28: {"eligible.leader.replicas.version": 1, "group.version": 1, "share.version": 1, "transaction.version": 2},
}


@pytest.mark.parametrize("level", LEVELS)
def test_a_new_log_has_the_features_of_its_metadata_version(level: int) -> None:
    image = MetadataImage()
    apply(image, *bootstrap_records(Settings(metadata_version=level)))
    assert dict(image.features) == {"metadata.version": level, **LEVELS[level]}


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("2.8", 30),
        ("3.0", 30),
        ("3.3", 7),
        ("3.6", 14),
        ("3.9", 21),
        ("4.0", 25),
        ("4.1", 27),
        ("4.2", 29),
        ("4.3", 30),
    ],
)
def test_a_new_log_has_the_metadata_version_of_the_release(name: str, level: int) -> None:
    emulation = Emulation(RELEASES[name])
    assert new_metadata_version(Settings(emulation=emulation)) == level
    assert new_metadata_version(Settings(emulation=emulation, metadata_version=26)) == 26


METADATA_VERSIONS = {
    "30": 30, "7": 7, "3.3-IV3": 7, "3.5-IV1": 10, "3.9": 21, "23": 23, "4.0-IV3": 25, "4.0": 25, "4.1": 27, "4.2": 29,
    "4.3": 30, "4.3-IV0": 30, " 4.0-IV1 ": 23,
}  # fmt: skip


@pytest.mark.parametrize("text", METADATA_VERSIONS)
def test_names_of_metadata_versions(text: str) -> None:
    assert decode_metadata_version(text) == METADATA_VERSIONS[text]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("4.0-IV9", "there is no metadata.version '4.0-IV9'; did you mean '4.0-IV3'?"),
        ("6", "there is no metadata.version '6'"),
        ("", "there is no metadata.version ''"),
        ("3.3-IV2", "there is no metadata.version '3.3-IV2'; did you mean '3.7-IV2'?"),
        ("3.0", "there is no metadata.version '3.0'"),
    ],
)
def test_bad_metadata_versions(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}"):
        decode_metadata_version(text)


@pytest.mark.parametrize(("level", "version"), [(23, 3), (29, 3), (30, 4)])
def test_records_follow_the_level_also_in_snapshots(level: int, version: int) -> None:
    cluster = DrivenCluster(2, metadata_version=level)
    assert cluster.create_at("t", [1, 2]).error_code == 0
    cluster.heartbeat(1, cordoned_log_dirs=[directory(1)])
    cluster.lose(2)
    in_log = [one for part in cluster.log.parts() for batch in part.batches for one in versions_in(batch)]
    assert ("RegisterBrokerRecord", version) in in_log
    assert ("PartitionRecord", 2) in in_log
    assert bool(cluster.image.brokers[1].cordoned_log_dirs) is (level == 30), "older records have no cordons"
    content = SnapshotContent(snapshot_batches(copy_image(cluster.image)), 0, 0)
    in_snapshot = [one for batch, _ in encode_snapshot(1, content) for one in versions_in(batch)]
    assert {one for one in in_snapshot if one[0] == "RegisterBrokerRecord"} == {("RegisterBrokerRecord", version)}


def test_the_metadata_version_of_a_cluster_can_be_raised() -> None:
    cluster = DrivenCluster(1, metadata_version=25)
    upgrade = [FeatureUpdateKey(feature="metadata.version", max_version_level=30, upgrade_type=1)]
    assert cluster.ask(UpdateFeaturesRequest(timeout_ms=1, feature_updates=upgrade), version=1).error_code == 0
    assert cluster.image.features["metadata.version"] == 30
    cluster.join(2)
    last = [one for part in cluster.log.parts() for batch in part.batches for one in versions_in(batch)]
    assert [one for one in last if one[0] == "RegisterBrokerRecord"] == [
        ("RegisterBrokerRecord", 3), ("RegisterBrokerRecord", 4)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "level", "reason"),
    [
        ("share.version", 1, None),
        ("share.version", 2, "at level 2 of share.version, and Klamm supports it only up to level 1$"),
        ("future.version", 1, "at level 1 of future.version, and Klamm does not know this feature$"),
    ],
)
def test_a_feature_of_newer_releases_is_refused(name: str, level: int, reason: str | None) -> None:
    image = new_image()
    apply(image, FeatureLevelRecord(name=name, feature_level=level))
    if reason is None:
        refuse_other_metadata_version(image, Settings())
    else:
        with pytest.raises(ReplayError, match=reason):
            refuse_other_metadata_version(image, Settings())


def test_a_log_that_names_no_metadata_version_is_refused() -> None:
    with pytest.raises(ReplayError, match=r"at metadata\.version none"):
        refuse_other_metadata_version(MetadataImage(), Settings())


@pytest.mark.parametrize("level", [None, 0, 1])
def test_another_minimum_of_replicas_in_sync_clears_who_is_eligible_where_that_is_kept(level: int | None) -> None:
    image = MetadataImage() if level is None else new_image()
    if level is not None:
        apply(image, FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=level))
    expected = [ClearElrRecord(topic_name="t"), ClearElrRecord(topic_name="")] if level == 1 else []
    assert clear_elr_records(image, [OTHER, MIN_ISR, CLUSTER_MIN_ISR]) == expected
