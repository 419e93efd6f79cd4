"""UpdateFeatures (57): changes of finalized feature levels (KIP-584, KIP-1022). One fault refuses all of them.

Versions 0 and 1 list the results, but only those of a success, as in Kafka. The timeout has no effect.
"""

from klamm.controller.authorizer import AclOperation
from klamm.controller.configs import in_hash_order, shortened
from klamm.controller.context import RequestContext
from klamm.controller.effects import QuorumUpgrade
from klamm.controller.feature_names import ELIGIBLE_LEADER_REPLICAS_VERSION, KRAFT_VERSION
from klamm.controller.log_records import Record
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.controller.transitions.feature_updates import Nodes, validate_feature_update
from klamm.controller.transitions.features import elr_safety_records, finalized_levels, supported_features
from klamm.protocol.messages.cluster.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from klamm.protocol.records.cluster import FeatureLevelRecord

_ROOM = 16  # the initial capacity of the map that Kafka walks
_FAILED = "The update failed for all features since the following feature had an error: "
_NO_ERROR = "NONE"


def handle_update_features(image: MetadataImage, request: UpdateFeaturesRequest, context: RequestContext) -> Outcome:
    """Decides the updates in Java's order; of a feature that is named twice, the last update counts."""
    refusal = context.refuse_cluster(AclOperation.ALTER)
    if refusal:
        return Outcome(UpdateFeaturesResponse(error_code=refusal.code, error_message=refusal.message))
    updates = {update.feature: update for update in request.feature_updates}
    present = finalized_levels(image, is_dynamic=context.cluster.is_dynamic)
    names = in_hash_order(updates, _ROOM)
    proposed = present | {name: update.max_version_level for name, update in updates.items()}
    nodes = Nodes(context.cluster.controller_id, supported_features(context.settings, image))
    for name in names:
        level, upgrade_type = updates[name].max_version_level, updates[name].upgrade_type
        fault = validate_feature_update(image, present, proposed, nodes, name, level, upgrade_type)
        if fault:
            text = shortened(f"{_FAILED}{fault.message}")
            return Outcome(UpdateFeaturesResponse(error_code=fault.code, error_message=text))
    response = UpdateFeaturesResponse(
        error_message=None,
        results=[UpdatableFeatureResult(feature=name, error_message=_NO_ERROR) for name in names],
    )
    has_elr = proposed.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0 and ELIGIBLE_LEADER_REPLICAS_VERSION in updates
    records: list[Record] = elr_safety_records(image, context.settings) if has_elr else []
    records += [
        FeatureLevelRecord(name=name, feature_level=updates[name].max_version_level)
        for name in names
        if name != KRAFT_VERSION  # it is in a control record
    ]
    if request.validate_only:
        return Outcome(response)
    is_raised = KRAFT_VERSION in updates and updates[KRAFT_VERSION].max_version_level > present.get(KRAFT_VERSION, 0)
    return Outcome(response, records, [QuorumUpgrade()] if is_raised else [])
