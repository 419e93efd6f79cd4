"""Applies the operations of IncrementalAlterConfigs (KIP-339) to the configs of a resource.

Values are text: lists are split at commas and joined again, and nothing is trimmed, as in Apache Kafka 4.3. The rules
of the resource's type (`topic_rules` and others) validate the result. This module refuses only edits that have no
result.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from klamm.controller.config_definitions.hash_order import in_hash_order
from klamm.controller.config_definitions.table import ConfigType, Definitions, broker_definitions, topic_definitions
from klamm.controller.config_definitions.values import invalid_config, invalid_request
from klamm.controller.configs.effective import ResourceType
from klamm.protocol.errors import ApiError

MAX_VALUE_BYTES: Final = 32_767
"""The limit of a string in the protocol. A request cannot contain more; only an appended list can exceed it."""


class ConfigOperation(IntEnum):
    """What to do with one config, by its number in requests."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigEdit(NamedTuple):
    """One operation in a request. `operation` may be a number that is not a `ConfigOperation`."""

    name: str
    operation: int
    value: str | None


Changes = Mapping[str, str | None]
"""The new text of each changed config; None: the config is removed."""


def apply_edits(resource_type: int, current: Mapping[str, str], edits: Iterable[ConfigEdit]) -> Changes | ApiError:
    """The changes that the edits make to `current`, in Kafka's order. Of two edits of one name the last one applies.

    A value that is None removes the config, whatever the operation. INVALID_CONFIG for a list operation on a config
    that is no list; INVALID_REQUEST for an operation that does not exist.
    """
    last = {edit.name: edit for edit in edits}
    changes: dict[str, str | None] = {}
    for name in in_hash_order(last):
        outcome = _applied(resource_type, current.get(name), last[name])
        if isinstance(outcome, ApiError):
            return outcome
        changes[name] = outcome
    return changes


def _applied(resource_type: int, current: str | None, edit: ConfigEdit) -> str | ApiError | None:
    if not ConfigOperation.SET <= edit.operation <= ConfigOperation.SUBTRACT:
        return invalid_request(f"Unknown operations type {edit.operation}")
    if edit.operation == ConfigOperation.DELETE or edit.value is None:
        return None
    if edit.operation == ConfigOperation.SET:
        return edit.value
    definition = _definitions(resource_type).get(edit.name)
    if definition is None or definition.type is not ConfigType.LIST:
        operation = ConfigOperation(edit.operation).name
        return invalid_config(f"Can't {operation} to key {edit.name} because its type is not LIST.")
    joined = ",".join(_joined_items(current if current is not None else definition.default or "", edit))
    if len(joined.encode("utf-8", "surrogatepass")) > MAX_VALUE_BYTES:
        return invalid_config(
            "The configuration value cannot be added because it exceeds the maximum value size of "
            f"{MAX_VALUE_BYTES} bytes."
        )
    return joined


def _joined_items(present: str, edit: ConfigEdit) -> list[str]:
    items, named = _items(present) if present else [], _items(edit.value or "")
    if edit.operation == ConfigOperation.SUBTRACT:
        gone = set(named)
        return [item for item in items if item not in gone]
    known = set(items)
    return items + [item for item in dict.fromkeys(named) if item not in known]


def _items(text: str) -> list[str]:
    """The items as Java splits text: empty items at the end are dropped, but an empty text is one empty item."""
    items = text.split(",")
    while len(items) > 1 and not items[-1]:
        items.pop()
    return [] if text and items == [""] else items


def _definitions(resource_type: int) -> Definitions:
    """The definitions of configs that lists can be appended to; Kafka defines no lists for groups and client
    metrics."""
    if resource_type == ResourceType.TOPIC:
        return topic_definitions()
    return broker_definitions() if resource_type == ResourceType.BROKER else {}
