"""UpdateFeatures: what is written, what brokers support, and what a restart finds. The recorded answers, with the order
of checks, are in tests/behaviour."""

from collections.abc import Mapping

import pytest

from klamm.controller.transitions.feature_updates import UpgradeType
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers.broker_registration import Feature
from klamm.protocol.messages.cluster.api_versions import ApiVersionsRequest
from klamm.protocol.messages.cluster.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from klamm.protocol.messages.groups.consumer_group_describe import ConsumerGroupDescribeRequest
from klamm.protocol.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
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


def test_eligible_leader_replicas_stay_on() -> None:
    cluster = DrivenCluster(1)
    assert update(cluster, ("eligible.leader.replicas.version", 0, SAFE))[0] == 95
    assert update(cluster, ("eligible.leader.replicas.version", 1, UP)) == (0, None)


def test_a_static_quorum_becomes_dynamic_and_stays_so() -> None:
    static, dynamic = DrivenCluster(1), DrivenCluster(1, configs={"controller.quorum.bootstrap.servers": "h:1"})
    assert "kraft.version" not in finalized(static)
    assert finalized(dynamic)["kraft.version"] == 1
    assert update(static, ("kraft.version", 0, SAFE)) == (0, None)
    end_offset = static.log.end_offset
    assert update(static, ("kraft.version", 1, UP), validate_only=True) == (0, None)
    assert static.log.end_offset == end_offset
    assert "kraft.version" not in finalized(static)
    assert update(static, ("kraft.version", 1, UP), ("streams.version", 0, SAFE)) == (0, None)
    assert static.log.end_offset == end_offset + 3
    assert finalized(static)["kraft.version"] == 1
    assert update(static, ("kraft.version", 0, SAFE))[0] == 95
    static.start()
    assert finalized(static)["kraft.version"] == 1
    assert "streams.version" not in finalized(static)
    assert update(dynamic, ("kraft.version", 1, UP)) == (0, None)
    assert update(dynamic, ("kraft.version", 0, SAFE))[0] == 95
    assert finalized(dynamic)["kraft.version"] == 1


def test_without_group_version_there_are_no_consumer_groups_of_the_new_protocol() -> None:
    cluster = DrivenCluster(1)
    assert update(cluster, ("group.version", 0, SAFE)) == (0, None)
    heartbeat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m")
    assert cluster.ask(heartbeat).error_code == ErrorCode.UNSUPPORTED_VERSION
    (described,) = cluster.ask(ConsumerGroupDescribeRequest(group_ids=["g"])).groups
    assert described.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_long_name_fits_into_the_answer() -> None:
    code, text = update(DrivenCluster(1), ("f" * 30_000, 1, UP))
    assert code == 95
    assert len(text or "") < 32_000
