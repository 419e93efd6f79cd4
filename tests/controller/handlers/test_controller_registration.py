"""ControllerRegistration: what is kept, where it is seen, and its limits."""

from typing import Any

import pytest

from klamm.controller.handlers.quorum.controller_registration import MAX_CHARACTERS, MAX_CONTROLLERS, MAX_ENTRIES
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.cluster.describe_cluster import DescribeClusterRequest
from klamm.protocol.messages.cluster.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from klamm.protocol.messages.raft.controller_registration import ControllerRegistrationRequest, Feature, Listener
from klamm.protocol.records.cluster import ControllerEndpoint, ControllerFeature, RegisterControllerRecord
from klamm.protocol.uuid import Uuid
from tests.controller.handlers.cluster import DrivenCluster
from tests.controller.image_facts import image_facts
from tests.controller.snapshots import rebuilt

INCARNATION = Uuid(bytes(15) + b"\4")


def registration(controller_id: int = 3001, **given: Any) -> ControllerRegistrationRequest:
    values = {
        "incarnation_id": INCARNATION,
        "listeners": [
            Listener(name="OTHER", host="o", port=1, security_protocol=1),
            Listener(name="CONTROLLER", host="h", port=65_535, security_protocol=0),
        ],
        "features": [Feature(name="share.version", min_supported_version=0, max_supported_version=1)],
        **given,
    }
    return ControllerRegistrationRequest(controller_id=controller_id, **values)


def register(cluster: DrivenCluster, request: ControllerRegistrationRequest) -> tuple[int, str | None]:
    answer = cluster.ask(request, broker_id=None)
    return answer.error_code, answer.error_message


def test_a_controller_is_kept_whole_and_its_last_registration_counts() -> None:
    cluster = DrivenCluster(1)
    assert register(cluster, registration(zk_migration_ready=True)) == (0, "")
    (record,) = cluster.image.controllers.values()
    assert record == RegisterControllerRecord(
        controller_id=3001,
        incarnation_id=INCARNATION,
        zk_migration_ready=True,
        end_points=[
            ControllerEndpoint(name="OTHER", host="o", port=1, security_protocol=1),
            ControllerEndpoint(name="CONTROLLER", host="h", port=65_535, security_protocol=0),
        ],
        features=[ControllerFeature(name="share.version", min_supported_version=0, max_supported_version=1)],
    )
    register(cluster, registration(listeners=[]))
    (record,) = cluster.image.controllers.values()
    assert (record.end_points, record.zk_migration_ready) == ([], False)
    assert image_facts(rebuilt(cluster.image)) == image_facts(cluster.image)
    cluster.start()
    assert cluster.image.controllers[3001] == record


def test_describe_cluster_lists_it_behind_the_active_controller() -> None:
    cluster = DrivenCluster(1)
    cluster.controller.advertise("k", 9093)
    for controller_id in (3002, 3001, 3000):
        register(cluster, registration(controller_id))
    answer = cluster.ask(DescribeClusterRequest(endpoint_type=2), broker_id=None)
    found = [(one.broker_id, one.host, one.port) for one in answer.brokers]
    assert found == [(3000, "k", 9093), (3001, "h", 65_535), (3002, "h", 65_535)]
    assert answer.controller_id == 3000


def test_a_level_that_it_does_not_support_is_refused() -> None:
    cluster = DrivenCluster(1)
    register(cluster, registration(3000, features=[]))  # what the controller itself supports is known
    update = UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey(feature="share.version", max_version_level=0, upgrade_type=2)]
    )
    assert cluster.ask(update, broker_id=None).error_code == 0
    register(cluster, registration(3001, features=[]))
    update.feature_updates = [FeatureUpdateKey(feature="share.version", max_version_level=1, upgrade_type=1)]
    answer = cluster.ask(update, broker_id=None)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert answer.error_message.endswith("Controller 3001 does not support this feature.")


@pytest.mark.parametrize(("given", "code"), [
    ({"listeners": [Listener(name=str(number)) for number in range(MAX_ENTRIES)]}, 0),
    ({"listeners": [Listener(name=str(number)) for number in range(MAX_ENTRIES + 1)]}, 42),
    ({"features": [Feature(name=str(number)) for number in range(MAX_ENTRIES + 1)]}, 42),
    ({"features": [Feature(name="ü" * MAX_CHARACTERS)]}, 0),
    ({"features": [Feature(name="ü" * (MAX_CHARACTERS + 1))]}, 42),
    ({"listeners": [Listener(name="x" * (MAX_CHARACTERS + 1))]}, 42),
    ({"listeners": [Listener(host="x" * (MAX_CHARACTERS + 1))]}, 42),
])  # fmt: skip
def test_what_it_says_has_limits(given: dict[str, Any], code: int) -> None:
    cluster = DrivenCluster(1)
    assert register(cluster, registration(**given))[0] == code
    assert len(cluster.image.controllers) == (0 if code else 1)


def test_the_number_of_controllers_has_a_limit() -> None:
    cluster = DrivenCluster(1)
    for number in range(MAX_CONTROLLERS):
        assert register(cluster, registration(number))[0] == 0
    code, text = register(cluster, registration(MAX_CONTROLLERS))
    assert (code, text) == (ErrorCode.POLICY_VIOLATION, f"There are {MAX_CONTROLLERS} other controllers already")
    assert register(cluster, registration(0))[0] == 0
