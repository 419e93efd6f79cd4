"""DescribeClientQuotas (48): the quotas of the entities that a filter matches. Kafka: ClientQuotasImage.describe.

A filter names entity types, each at most once. With `strict` an entity must have no other types than these.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import TypeAlias

from klamm.controller.authorizer import AclOperation
from klamm.controller.configs import invalid_request, shortened
from klamm.controller.context import RequestContext
from klamm.controller.handlers.configs.access import CLUSTER_DENIED
from klamm.controller.metadata.client_quotas import Quotas
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.quota_entity import CLIENT_ID, IP, USER, QuotaEntity
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.messages.configs.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)


class MatchType(IntEnum):
    """How a component of a filter matches the name of its entity type."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2
    """Any name, the default entity included."""


Filter: TypeAlias = Sequence[ComponentData]


def handle_describe_client_quotas(
    image: MetadataImage, request: DescribeClientQuotasRequest, context: RequestContext
) -> Outcome:
    """Entities in the order in which they got their first quota."""
    refusal = None if context.authorize_cluster(AclOperation.DESCRIBE_CONFIGS) else CLUSTER_DENIED
    refusal = refusal or _validate(request.components)
    if refusal:
        return Outcome(
            DescribeClientQuotasResponse(error_code=refusal.code, error_message=refusal.message, entries=None)
        )
    entries = [
        _described(entity, quotas)
        for entity, quotas in image.client_quotas.items()
        if _matches(request.components, entity, strict=request.strict)
    ]
    return Outcome(DescribeClientQuotasResponse(entries=entries))


def _validate(components: Filter) -> ApiError | None:
    types: set[str] = set()
    for component in components:
        fault = _fault_in_type(component, types) or _fault_in_match(component)
        if fault:
            return fault
        types.add(component.entity_type)
    if IP in types and len(types) > 1:
        return invalid_request(
            "Invalid entity filter component combination. IP filter component should not be used with "
            "user or clientId filter component."
        )
    return None


def _fault_in_type(component: ComponentData, before: set[str]) -> ApiError | None:
    """`before`: the entity types of the components before this one."""
    if not component.entity_type:
        return invalid_request("Invalid empty entity type.")
    if component.entity_type in before:
        return invalid_request(f"Entity type {component.entity_type} cannot appear more than once in the filter.")
    if component.entity_type not in (USER, CLIENT_ID, IP):
        return ApiError(ErrorCode.UNSUPPORTED_VERSION, shortened(f"Unsupported entity type {component.entity_type}"))
    return None


def _fault_in_match(component: ComponentData) -> ApiError | None:
    if component.match_type not in set(MatchType):
        return invalid_request(f"Unknown match type {component.match_type}")
    said = f"Request specified MATCH_TYPE_{MatchType(component.match_type).name}, but"
    if component.match_type == MatchType.EXACT:
        return invalid_request(f"{said} set match string to null.") if component.match is None else None
    return invalid_request(f"{said} also specified a match string.") if component.match is not None else None


def _matches(components: Filter, entity: QuotaEntity, *, strict: bool) -> bool:
    names = dict(entity)
    if strict and len(names) != len(components):
        return False
    return all(
        component.entity_type in names
        and (component.match_type == MatchType.SPECIFIED or names[component.entity_type] == component.match)
        for component in components
    )


def _described(entity: QuotaEntity, quotas: Quotas) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=entity_type, entity_name=name) for entity_type, name in entity],
        values=[ValueData(key=key, value=value) for key, value in quotas.items()],
    )
