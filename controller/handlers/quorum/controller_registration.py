"""ControllerRegistration (70): another controller, which observes the metadata log, announces itself (KIP-919).

Kafka checks nothing but the right, and keeps every registration for ever. Here their number and size are limited.
"""

from typing import Final

from klamm.controller.authorizer import AclOperation
from klamm.controller.configs import invalid_request
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata_versions import FIRST_LEVEL_WITH_CONTROLLERS
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.messages.raft.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from klamm.protocol.records.cluster import ControllerEndpoint, ControllerFeature, RegisterControllerRecord

MAX_CONTROLLERS: Final = 100
MAX_ENTRIES: Final = 100
"""The most listeners, and the most features, of a controller."""
MAX_CHARACTERS: Final = 255
"""The most characters of the name of a listener or a feature, and of a host."""


def handle_controller_registration(
    image: MetadataImage, request: ControllerRegistrationRequest, context: RequestContext
) -> Outcome:
    """One RegisterControllerRecord, which replaces the controller's former one."""
    refusal = context.refuse_cluster(AclOperation.CLUSTER_ACTION)
    if refusal is None and image.features.metadata_version < FIRST_LEVEL_WITH_CONTROLLERS:
        text = "The current MetadataVersion is too old to support controller registrations."
        refusal = ApiError(ErrorCode.UNSUPPORTED_VERSION, text)
    if refusal := refusal or _beyond_limits(image, request):
        return Outcome(ControllerRegistrationResponse(error_code=refusal.code, error_message=refusal.message))
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=request.zk_migration_ready,
        end_points=[
            ControllerEndpoint(name=at.name, host=at.host, port=at.port, security_protocol=at.security_protocol)
            for at in request.listeners
        ],
        features=[
            ControllerFeature(
                name=feature.name,
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            )
            for feature in request.features
        ],
    )
    return Outcome(ControllerRegistrationResponse(), [record])


def _beyond_limits(image: MetadataImage, request: ControllerRegistrationRequest) -> ApiError | None:
    texts = [text for at in request.listeners for text in (at.name, at.host)]
    texts += [feature.name for feature in request.features]
    if max(len(request.listeners), len(request.features)) > MAX_ENTRIES:
        return invalid_request(f"A controller has at most {MAX_ENTRIES} listeners and {MAX_ENTRIES} features")
    if any(len(text) > MAX_CHARACTERS for text in texts):
        return invalid_request(f"Names and hosts of a controller have at most {MAX_CHARACTERS} characters")
    if request.controller_id not in image.controllers and len(image.controllers) >= MAX_CONTROLLERS:
        return ApiError(ErrorCode.POLICY_VIOLATION, f"There are {MAX_CONTROLLERS} other controllers already")
    return None
