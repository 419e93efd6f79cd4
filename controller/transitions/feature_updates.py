"""Which updates of feature levels are valid, in the order and with the texts of Kafka's FeatureControlManager.

metadata.version can only be raised: Apache Kafka 4.3 refuses each downgrade over a version that changed the metadata,
and Klamm every one.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from klamm.controller.configs import shortened
from klamm.controller.feature_names import ELIGIBLE_LEADER_REPLICAS_VERSION, KRAFT_VERSION, METADATA_VERSION
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.transitions.features import SUPPORTED_FEATURES
from klamm.protocol.errors import ApiError, ErrorCode

_DISABLED: Final = (0, 0)


class UpgradeType(IntEnum):
    """What a client allows to be done."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def validate_feature_update(
    image: MetadataImage, present: Mapping[str, int], controller_id: int, name: str, level: int, upgrade_type: int
) -> ApiError | None:
    """The error why a feature cannot get this level; None if it can. `present`: the finalized levels above 0."""
    if upgrade_type not in set(UpgradeType):
        return _invalid(name, level, "The controller does not support the given upgrade type.")
    if level < 0:
        return _invalid(name, level, "A feature version cannot be less than 0.")
    unsupported = _unsupported(image, controller_id, name, level)
    if unsupported:
        return _invalid(name, level, unsupported)
    now = present.get(name, 0)
    if level < now and upgrade_type == UpgradeType.UPGRADE:
        return _invalid(
            name,
            level,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade.",
        )
    if level > now and upgrade_type != UpgradeType.UPGRADE:
        return _invalid(name, level, "Can't downgrade to a newer version.")
    if name not in SUPPORTED_FEATURES:  # level 0 of it is in the range of what is not supported
        return _invalid(name, level, f"Feature {name} not found.")
    return _fault_of_change(name, now, level, upgrade_type)


def _fault_of_change(name: str, now: int, level: int, upgrade_type: int) -> ApiError | None:
    """The error of a change between two levels that are supported."""
    if level == now:
        return None
    if name == METADATA_VERSION and level < now:
        reason = (
            "Unsafe metadata downgrade is not supported in this version."
            if upgrade_type == UpgradeType.UNSAFE_DOWNGRADE
            else "Refusing to perform the requested downgrade because it might delete metadata information."
        )
        text = f"Unsupported metadata.version downgrade from {now} to {level}. {reason}"
        return ApiError(ErrorCode.INVALID_UPDATE_VERSION, text)
    if name == KRAFT_VERSION and level < now:
        return _invalid(name, level, "Can't downgrade the version of this feature.")
    if name == ELIGIBLE_LEADER_REPLICAS_VERSION and level < now:
        return _invalid(name, level, "Klamm's elections need eligible leader replicas.")
    return None


def _unsupported(image: MetadataImage, controller_id: int, name: str, level: int) -> str | None:
    """Why a node of the cluster does not support this level; None if all do."""
    nodes = {f"Local controller {controller_id}": SUPPORTED_FEATURES.get(name, _DISABLED)}
    for broker in image.brokers.values():
        known = {feature: (lowest, highest) for feature, lowest, highest in broker.features}
        nodes[f"Broker {broker.broker_id}"] = known.get(name, _DISABLED)
    for other_id, other in image.controllers.items():
        ranges = {one.name: (one.min_supported_version, one.max_supported_version) for one in other.features}
        if other_id != controller_id:
            nodes[f"Controller {other_id}"] = ranges.get(name, _DISABLED)
    for node, (lowest, highest) in nodes.items():
        if not lowest <= level <= highest:
            if not highest:
                return f"{node} does not support this feature."
            return f"{node} only supports versions {lowest if lowest == highest else f'{lowest}-{highest}'}"
    return None


def _invalid(name: str, level: int, reason: str) -> ApiError:
    text = f"Invalid update version {level} for feature {name}. {reason}"
    return ApiError(ErrorCode.INVALID_UPDATE_VERSION, shortened(text))
