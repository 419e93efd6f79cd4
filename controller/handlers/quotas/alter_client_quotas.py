"""AlterClientQuotas (49): sets and removes quotas of users, client ids and addresses.

Each entity is decided on its own: an error in it leaves all of its quotas unchanged. What quotas do is in
`klamm.controller.quotas` and `klamm.broker.request_quotas`.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from klamm.controller.authorizer import AclOperation
from klamm.controller.configs import in_hash_order, invalid_request
from klamm.controller.context import RequestContext
from klamm.controller.handlers.quotas.quota_rules import validate_entity, validate_quota
from klamm.controller.log_records import Record
from klamm.controller.metadata.client_quotas import quota_record
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.quota_entity import QuotaEntity, quota_entity
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.messages.configs.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    EntityData,
    EntryData,
    OpData,
)

MAX_ENTITIES: Final = 100_000
"""Most entities with quotas in a cluster. Apache Kafka has no such limit."""
MAX_CHANGES_PER_REQUEST: Final = 10_000
"""Most records that one request writes, as in Kafka."""
_TOO_MANY: Final = ApiError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")

Entity = dict[str, str | None]
"""The names of an entity by type, in the order in which Kafka checks and prints them."""


def handle_alter_client_quotas(
    image: MetadataImage, request: AlterClientQuotasRequest, context: RequestContext
) -> Outcome:
    """One result for each distinct entity, in the order of the request."""
    refusal = context.refuse_cluster(AclOperation.ALTER_CONFIGS)
    if refusal:
        return _all_refused(request, refusal)
    results: dict[QuotaEntity, tuple[Entity, ApiError | None]] = {}
    records: list[Record] = []
    added: set[QuotaEntity] = set()
    for entry in request.entries:
        entity = _entity(entry.entity)
        key = quota_entity(entity.items())
        if key in results or _names_a_key_twice(entry.ops):
            # Kafka's text is the same if a quota key is given twice. The changes of the first entry stay.
            results[key] = entity, invalid_request(f"Ignoring duplicate entity {_printed(entity)}")
            continue
        changes = _alter(entity, entry.ops, image.client_quotas.get(key, {}))
        if not isinstance(changes, ApiError) and key not in image.client_quotas and changes:
            added.add(key)
            if len(image.client_quotas) + len(added) > MAX_ENTITIES:
                changes = ApiError(ErrorCode.POLICY_VIOLATION, f"At most {MAX_ENTITIES} entities can have quotas.")
        if isinstance(changes, ApiError):
            results[key] = entity, changes
        else:
            results[key] = entity, None
            records += changes
    if len(records) > MAX_CHANGES_PER_REQUEST:
        return _all_refused(request, _TOO_MANY)
    response = AlterClientQuotasResponse(entries=[_result(entity, fault) for entity, fault in results.values()])
    return Outcome(response, [] if request.validate_only else records)


def _alter(entity: Entity, operations: Iterable[OpData], quotas: Mapping[str, float]) -> list[Record] | ApiError:
    """The records that change the entity's present `quotas`; a value that stays the same needs no record."""
    fault = validate_entity(entity)
    if fault:
        return fault
    by_key = {operation.key: operation for operation in operations}
    records: list[Record] = []
    for key in in_hash_order(by_key, len(by_key)):
        operation = by_key[key]
        if not operation.remove:
            fault = validate_quota(entity, key, operation.value)
            if fault:
                return fault
        value = None if operation.remove else operation.value
        if quotas.get(key) != value:
            records.append(quota_record(quota_entity(entity.items()), key, value))
    return records


def _entity(parts: Iterable[EntityData]) -> Entity:
    names = {part.entity_type: part.entity_name for part in parts}
    return {entity_type: names[entity_type] for entity_type in in_hash_order(names, len(names))}


def _names_a_key_twice(operations: Iterable[OpData]) -> bool:
    keys = [operation.key for operation in operations]
    return len(set(keys)) < len(keys)


def _printed(entity: Entity) -> str:
    """An entity in the format of Java's toString."""
    names = ", ".join(f"{entity_type}={'null' if name is None else name}" for entity_type, name in entity.items())
    return f"ClientQuotaEntity(entries={{{names}}})"


def _result(entity: Entity, fault: ApiError | None) -> AlterClientQuotasResponseEntryData:
    parts = [EntityData(entity_type=entity_type, entity_name=name) for entity_type, name in entity.items()]
    if fault is None:
        return AlterClientQuotasResponseEntryData(error_message=None, entity=parts)
    return AlterClientQuotasResponseEntryData(error_code=fault.code, error_message=fault.message, entity=parts)


def _all_refused(request: AlterClientQuotasRequest, refusal: ApiError) -> Outcome:
    return Outcome(AlterClientQuotasResponse(entries=[_refused(entry, refusal) for entry in request.entries]))


def _refused(entry: EntryData, refusal: ApiError) -> AlterClientQuotasResponseEntryData:
    return AlterClientQuotasResponseEntryData(
        error_code=refusal.code, error_message=refusal.message, entity=entry.entity
    )
