"""UpdateFeatures: what is written, what brokers support, and what a restart finds. The recorded answers, with the order
of checks, are in tests/behaviour."""

from collections.abc import Mapping

import pytest

from klamm.controller.releases import RELEASES, Emulation
from klamm.controller.transitions.feature_updates import UpgradeType
from klamm.protocol.messages.brokers.broker_registration import Feature
from klamm.protocol.messages.cluster.api_versions import ApiVersionsRequest
from klamm.protocol.messages.cluster.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from klamm.protocol.records.cluster import FeatureLevelRecord
from klamm.protocol.records.configs import ConfigRecord
from tests.controller.handlers.cluster import DrivenCluster
from tests.controller.image_facts import image_facts
from tests.controller.snapshots import rebuilt

UP, SAFE, UNSAFE = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE
FAILED = "The update failed for all features since the following feature had an error: "


def update(
    cluster: DrivenCluster, *changes: tuple[str, int, int], validate_only: bool = False, version: int = 2
) -> tuple[int, str | None]:
    updates = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in changes
    ]
    request = UpdateFeaturesRequest(feature_updates=updates, validate_only=validate_only)
    answer = cluster.ask(request, version=version)
    return answer.error_code, answer.error_message


def finalized(cluster: DrivenCluster) -> Mapping[str, int]:
    software = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    return {one.name: one.max_version_level for one in cluster.ask(software).finalized_features}


def test_levels_follow_and_a_restart_keeps_them() -> None:
    cluster = DrivenCluster(1)
    assert update(cluster, ("transaction.version", 1, SAFE), ("streams.version", 0, UNSAFE)) == (0, None)
    levels = finalized(cluster)
    assert levels["transaction.version"] == 1
    assert "streams.version" not in levels
    assert image_facts(rebuilt(cluster.image)) == image_facts(cluster.image)
    cluster.start()
    assert finalized(cluster) == levels
    assert update(cluster, ("streams.version", 1, UP)) == (0, None)
    assert finalized(cluster)["streams.version"] == 1


def test_validation_and_a_single_fault_change_nothing() -> None:
    cluster = DrivenCluster(1)
    before = finalized(cluster), cluster.log.end_offset
    assert update(cluster, ("transaction.version", 1, SAFE), validate_only=True) == (0, None)
    assert update(cluster, ("transaction.version", 1, SAFE), ("group.version", 9, UP))[0] == 95
    assert (finalized(cluster), cluster.log.end_offset) == before


def test_of_a_feature_that_is_named_twice_the_last_update_counts() -> None:
    cluster = DrivenCluster(1)
    assert update(cluster, ("transaction.version", 9, SAFE), ("transaction.version", 1, SAFE)) == (0, None)
    assert finalized(cluster)["transaction.version"] == 1


def test_faults_are_found_in_javas_order() -> None:
    """Which of several faults is told depends on the names, not on their order in the request."""
    cluster = DrivenCluster(1)
    faults = [("a", 1, UP), ("b", 1, UP), ("group.version", -1, UP)]
    reason = "Invalid update version -1 for feature group.version. A feature version cannot be less than 0."
    assert {update(cluster, *order) for order in (faults, faults[::-1])} == {(95, f"{FAILED}{reason}")}


@pytest.mark.parametrize(("level", "kind", "reason"), [
    (0, UP, "Feature foo not found."),
    (1, UP, "Local controller 3000 does not support this feature."),
    (-1, 0, "The controller does not support the given upgrade type."),
    (-1, 4, "The controller does not support the given upgrade type."),
    (-1, UNSAFE, "A feature version cannot be less than 0."),
])  # fmt: skip
def test_unknown_features(level: int, kind: int, reason: str) -> None:
    code, text = update(DrivenCluster(1), ("foo", level, kind))
    assert (code, text) == (95, f"{FAILED}Invalid update version {level} for feature foo. {reason}")


def test_every_broker_has_to_support_the_level() -> None:
    cluster = DrivenCluster(1)
    levels = [Feature(name="metadata.version", min_supported_version=7, max_supported_version=30)]
    levels += [
        Feature(name=name, min_supported_version=0, max_supported_version=highest)
        for name, highest in (("group.version", 1), ("transaction.version", 1), ("share.version", 1))
    ]
    levels.append(Feature(name="eligible.leader.replicas.version", min_supported_version=0, max_supported_version=1))
    assert update(cluster, ("transaction.version", 1, SAFE), ("streams.version", 0, SAFE)) == (0, None)
    cluster.ask(cluster.registration(2, features=levels), broker_id=None)
    assert update(cluster, ("transaction.version", 2, UP)) == (
        95,
        f"{FAILED}Invalid update version 2 for feature transaction.version. Broker 2 only supports versions 0-1",
    )
    assert update(cluster, ("streams.version", 1, UP)) == (
        95,
        f"{FAILED}Invalid update version 1 for feature streams.version. Broker 2 does not support this feature.",
    )


def test_a_newer_level_is_no_downgrade() -> None:
    cluster = DrivenCluster(1)
    update(cluster, ("transaction.version", 0, SAFE))
    for kind in (SAFE, UNSAFE):
        code, text = update(cluster, ("transaction.version", 1, kind))
        assert (code, (text or "").endswith("Can't downgrade to a newer version.")) == (95, True)


@pytest.mark.parametrize(("kind", "reason"), [
    (SAFE, "Refusing to perform the requested downgrade because it might delete metadata information."),
    (UNSAFE, "Unsafe metadata downgrade is not supported in this version."),
])  # fmt: skip
def test_the_metadata_version_stays(kind: int, reason: str) -> None:
    cluster = DrivenCluster(1)
    code, text = update(cluster, ("metadata.version", 7, kind))
    assert (code, text) == (95, f"{FAILED}Unsupported metadata.version downgrade from 30 to 7. {reason}")
    assert update(cluster, ("metadata.version", 30, UP)) == (0, None)


@pytest.mark.parametrize(("now", "then", "allowed"), [
    (30, 29, False), (29, 24, True), (29, 23, True), (24, 22, False), (22, 17, True), (18, 16, False), (16, 15, True),
    (15, 14, False), (14, 13, False), (13, 12, False), (12, 11, True), (11, 10, False), (10, 8, True), (8, 7, False),
])  # fmt: skip
def test_the_metadata_version_can_be_lowered_where_no_level_between_changed_the_metadata(
    now: int, then: int, *, allowed: bool
) -> None:
    cluster = DrivenCluster(1, metadata_version=now)
    code, _ = update(cluster, ("metadata.version", then, SAFE))
    assert (code, cluster.image.features["metadata.version"]) == ((0, then) if allowed else (95, now))


def test_eligible_leader_replicas_are_turned_off_and_on() -> None:
    cluster = DrivenCluster(1)
    elr = "eligible.leader.replicas.version"
    assert update(cluster, (elr, 0, SAFE)) == (0, None)
    broker = ConfigRecord(resource_type=4, resource_name="1", name="min.insync.replicas", value="3")
    cluster.controller.commit_steered([broker, ConfigRecord(resource_type=4, name="min.insync.replicas", value=None)])
    with cluster.writing() as records:
        assert update(cluster, (elr, 1, UP), validate_only=True) == (0, None)
        assert records == []
        assert update(cluster, (elr, 1, UP)) == (0, None)
    assert records == [
        ConfigRecord(resource_type=4, name="min.insync.replicas", value="1"),
        ConfigRecord(resource_type=4, resource_name="1", name="min.insync.replicas", value=None),
        FeatureLevelRecord(name=elr, feature_level=1),
    ]
    with cluster.writing() as records:
        assert update(cluster, (elr, 1, UP)) == (0, None)
    assert records == [FeatureLevelRecord(name=elr, feature_level=1)]


def test_eligible_leader_replicas_need_a_metadata_version() -> None:
    """The level after the request counts."""
    cluster = DrivenCluster(1, metadata_version=22)
    name = "eligible.leader.replicas.version"
    reason = f"{name} could not be set to 1 because it depends on metadata.version level 23"
    assert update(cluster, (name, 1, UP)) == (95, f"{FAILED}Invalid update version 1 for feature {name}. {reason}")
    assert update(cluster, (name, 0, SAFE)) == (0, None)
    assert update(cluster, (name, 1, UP), ("metadata.version", 23, UP)) == (0, None)


def test_the_levels_are_those_of_the_release() -> None:
    cluster = DrivenCluster(0, emulation=Emulation(RELEASES["3.6"]))
    for name, level, reason in (
        ("metadata.version", 15, "Local controller 3000 only supports versions 1-14"),
        ("group.version", 1, "Local controller 3000 does not support this feature."),
    ):
        text = f"{FAILED}Invalid update version {level} for feature {name}. {reason}"
        assert update(cluster, (name, level, UP)) == (95, text)
    assert update(cluster, ("metadata.version", 14, UP)) == (0, None)
