"""IncrementalAlterConfigs (44): set, delete, append to and subtract from configs of resources (KIP-339).

`alterations` decides each resource and makes the records and the order of results.
"""

from klamm.controller.configs import ConfigEdit
from klamm.controller.context import RequestContext
from klamm.controller.effects import RootLogLevels
from klamm.controller.handlers.configs.alterations import alter
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def handle_incremental_alter_configs(
    image: MetadataImage, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> Outcome:
    """One result per resource; a refused resource keeps all its configs, the others of the request change."""
    altered = alter(
        image, context, request.resources, _edit_of, replaces_all=False, validate_only=request.validate_only
    )
    responses = [
        AlterConfigsResourceResponse(
            error_code=refusal.code if refusal else 0,
            error_message=refusal.message if refusal else None,
            resource_type=alteration.resource_type,
            resource_name=alteration.resource_name,
        )
        for alteration, refusal in altered.results
    ]
    response = IncrementalAlterConfigsResponse(responses=responses)
    levels = altered.root_log_levels
    return Outcome(response, altered.records, [RootLogLevels(levels)] if levels else [])


def _edit_of(config: AlterableConfig) -> ConfigEdit:
    return ConfigEdit(config.name, config.config_operation, config.value)
