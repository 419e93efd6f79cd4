"""AlterConfigs (33): replaces all dynamic configs of resources by those in the request. Deprecated by KIP-339.

`alterations` decides each resource and makes the records and the order of results.
"""

from klamm.controller.configs import ConfigEdit, ConfigOperation
from klamm.controller.context import RequestContext
from klamm.controller.handlers.configs.alterations import alter
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.messages.configs.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def handle_alter_configs(image: MetadataImage, request: AlterConfigsRequest, context: RequestContext) -> Outcome:
    """One result per resource; a refused resource keeps all its configs, the others of the request change."""
    altered = alter(image, context, request.resources, _edit_of, replaces_all=True, validate_only=request.validate_only)
    responses = [
        AlterConfigsResourceResponse(
            error_code=refusal.code if refusal else 0,
            error_message=refusal.message if refusal else None,
            resource_type=alteration.resource_type,
            resource_name=alteration.resource_name,
        )
        for alteration, refusal in altered.results
    ]
    return Outcome(AlterConfigsResponse(responses=responses), altered.records)


def _edit_of(config: AlterableConfig) -> ConfigEdit:
    return ConfigEdit(config.name, ConfigOperation.SET, config.value)
