"""Hides secrets in requests and answers that are shown to people: passwords, keys and tokens, by the names of fields;
and the records of the metadata log, which have keys of SCRAM and of delegation tokens."""

from collections.abc import Mapping
from typing import Any, Final

from klamm.controller.config_definitions.table import broker_definition
from klamm.protocol.codec.json_form import message_to_json
from klamm.protocol.fields import Message
from klamm.protocol.internal_topics import METADATA_TOPIC
from klamm.protocol.uuid import METADATA_TOPIC_ID

HIDDEN: Final = "hidden"
_FIELDS: Final = frozenset({"authBytes", "saltedPassword", "hmac", "requestData", "responseData", "unalignedRecords"})
"""The fields, as Kafka names them: SASL tokens, passwords of SCRAM, the secrets of delegation tokens; forwarded
requests and responses, and snapshots, which may have any of these."""
_OF_METADATA_LOG: Final = {"topicId": str(METADATA_TOPIC_ID), "topic": METADATA_TOPIC}
"""What the topic of a Fetch of the metadata log has, by version."""


def shown_message(message: Message, version: int) -> dict[str, Any]:
    """The message as JSON without secrets."""
    shown: dict[str, Any] = _without_secrets(message_to_json(message, version))
    return shown


def _without_secrets(value: Any, hidden: frozenset[str] = _FIELDS) -> Any:
    if isinstance(value, list):
        return [_without_secrets(inner, hidden) for inner in value]
    if not isinstance(value, Mapping):
        return value
    if any(value.get(name) == found for name, found in _OF_METADATA_LOG.items()):
        hidden |= {"records"}
    here = hidden if not _is_secret_config(value) else hidden | {"value"}
    return {
        name: HIDDEN if name in here and inner else _without_secrets(inner, hidden) for name, inner in value.items()
    }


def _is_secret_config(value: Mapping[str, Any]) -> bool:
    """Whether this is a config with its value, and the config is a password."""
    name = value.get("name")
    definition = broker_definition(name) if isinstance(name, str) and "value" in value else None
    return definition is not None and definition.sensitive
