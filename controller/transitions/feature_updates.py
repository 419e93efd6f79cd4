"""Which updates of feature levels are valid, in the order and with the texts of Kafka's FeatureControlManager.

metadata.version cannot be lowered over a version that added records or fields.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from klamm.controller.configs import shortened
from klamm.controller.feature_names import ELIGIBLE_LEADER_REPLICAS_VERSION, KRAFT_VERSION, METADATA_VERSION
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata_versions import FIRST_LEVEL_WITH_CONTROLLERS, FIRST_LEVEL_WITH_ELR, changes_metadata
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.quick_dataclasses import dataclass

_DISABLED: Final = (0, 0)


class UpgradeType(IntEnum):
    """What a client allows to be done."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True)
class Nodes:
    """What the nodes of the cluster support."""

    controller_id: int
    supported: Mapping[str, tuple[int, int]]
    """The lowest and highest level of each feature, of the nodes of this process."""


def validate_feature_update(
    image: MetadataImage,
    present: Mapping[str, int],
    proposed: Mapping[str, int],
    nodes: Nodes,
    name: str,
    level: int,
    upgrade_type: int,
) -> ApiError | None:
    """The error why a feature cannot get this level; None if it can. `present`: the finalized levels above 0;
    `proposed`: the same after all updates of the request."""
    if upgrade_type not in set(UpgradeType):
        return _invalid(name, level, "The controller does not support the given upgrade type.")
    if level < 0:
        return _invalid(name, level, "A feature version cannot be less than 0.")
    unsupported = _unsupported(image, nodes, name, level)
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
    if name not in nodes.supported:  # level 0 of it is in the range of what is not supported
        return _invalid(name, level, f"Feature {name} not found.")
    if name == ELIGIBLE_LEADER_REPLICAS_VERSION and level and proposed[METADATA_VERSION] < FIRST_LEVEL_WITH_ELR:
        needs = f"because it depends on {METADATA_VERSION} level {FIRST_LEVEL_WITH_ELR}"
        return _invalid(name, level, f"{name} could not be set to {level} {needs}")
    return _fault_of_change(name, now, level, upgrade_type)


def _fault_of_change(name: str, now: int, level: int, upgrade_type: int) -> ApiError | None:
    """The error of a change between two levels that are supported."""
    if level == now:
        return None
    if name == METADATA_VERSION and level < now and changes_metadata(level, now):
        reason = (
            "Unsafe metadata downgrade is not supported in this version."
            if upgrade_type == UpgradeType.UNSAFE_DOWNGRADE
            else "Refusing to perform the requested downgrade because it might delete metadata information."
        )
        text = f"Unsupported metadata.version downgrade from {now} to {level}. {reason}"
        return ApiError(ErrorCode.INVALID_UPDATE_VERSION, text)
    if name == KRAFT_VERSION and level < now:
        return _invalid(name, level, "Can't downgrade the version of this feature.")
    return None


def _unsupported(image: MetadataImage, among: Nodes, name: str, level: int) -> str | None:
    """Why a node of the cluster does not support this level; None if all do."""
    nodes = {f"Local controller {among.controller_id}": among.supported.get(name, _DISABLED)}
    for broker in image.brokers.values():
        known = {feature: (lowest, highest) for feature, lowest, highest in broker.features}
        nodes[f"Broker {broker.broker_id}"] = known.get(name, _DISABLED)
    for other_id, other in image.controllers.items():
        ranges = {one.name: (one.min_supported_version, one.max_supported_version) for one in other.features}
        if other_id != among.controller_id and image.features.metadata_version >= FIRST_LEVEL_WITH_CONTROLLERS:
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
