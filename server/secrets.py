"""Hides secrets in requests and answers that are shown to people: passwords, keys and tokens, by the names of
fields."""

from collections.abc import Mapping
from typing import Any, Final

from klamm.controller.config_definitions.table import broker_definition
from klamm.protocol.codec.json_form import message_to_json
from klamm.protocol.fields import Message

HIDDEN: Final = "hidden"
_FIELDS: Final = frozenset({"authBytes", "saltedPassword", "hmac", "requestData", "responseData", "unalignedRecords"})
"""The fields, as Kafka names them: SASL tokens, passwords of SCRAM, the secrets of delegation tokens; forwarded
requests and responses, and snapshots, which may have any of these."""


def shown_message(message: Message, version: int) -> dict[str, Any]:
    """The message as JSON without secrets."""
    shown: dict[str, Any] = _without_secrets(message_to_json(message, version))
    return shown


def _without_secrets(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_secrets(inner) for inner in value]
    if not isinstance(value, Mapping):
        return value
    hidden = _FIELDS if not _is_secret_config(value) else _FIELDS | {"value"}
    return {name: HIDDEN if name in hidden and inner else _without_secrets(inner) for name, inner in value.items()}


def _is_secret_config(value: Mapping[str, Any]) -> bool:
    """Whether this is a config with its value, and the config is a password."""
    name = value.get("name")
    definition = broker_definition(name) if isinstance(name, str) and "value" in value else None
    return definition is not None and definition.sensitive
